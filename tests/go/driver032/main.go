// Command driver032 is a DRA driver on the helper `kubeletplugin` of Kubernetes 1.32 (`-modfile=go032.mod`), for tests
// of a kubelet: it publishes devices of one node and prepares claims. It prints `prepare NAMESPACE/CLAIM UID` and
// `unprepare NAMESPACE/CLAIM UID` when it is asked to.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1beta1"
)

type driver struct {
	drapb.UnimplementedDRAPluginServer
	name   string
	client kubernetes.Interface
}

func (d *driver) NodePrepareResources(ctx context.Context, request *drapb.NodePrepareResourcesRequest) (*drapb.NodePrepareResourcesResponse, error) {
	response := &drapb.NodePrepareResourcesResponse{Claims: map[string]*drapb.NodePrepareResourceResponse{}}
	for _, asked := range request.Claims {
		fmt.Printf("prepare %s/%s %s\n", asked.Namespace, asked.Name, asked.UID)
		claim, err := d.client.ResourceV1beta1().ResourceClaims(asked.Namespace).Get(ctx, asked.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		answer := &drapb.NodePrepareResourceResponse{}
		for _, result := range claim.Status.Allocation.Devices.Results {
			answer.Devices = append(answer.Devices, &drapb.Device{
				RequestNames: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device,
				CDIDeviceIDs: []string{d.name + "/gpu=" + result.Device},
			})
		}
		response.Claims[asked.UID] = answer
	}
	return response, nil
}

func (d *driver) NodeUnprepareResources(_ context.Context, request *drapb.NodeUnprepareResourcesRequest) (*drapb.NodeUnprepareResourcesResponse, error) {
	response := &drapb.NodeUnprepareResourcesResponse{Claims: map[string]*drapb.NodeUnprepareResourceResponse{}}
	for _, asked := range request.Claims {
		fmt.Printf("unprepare %s/%s %s\n", asked.Namespace, asked.Name, asked.UID)
		response.Claims[asked.UID] = &drapb.NodeUnprepareResourceResponse{}
	}
	return response, nil
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of the API server")
	name := flag.String("driver", "gpu.example.com", "name of the driver")
	node := flag.String("node", "", "node whose devices these are")
	root := flag.String("kubelet-dir", "", "folder of the kubelet, which holds plugins_registry")
	count := flag.Int("devices", 2, "how many devices there are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	check(err)
	d := &driver{name: *name, client: kubernetes.NewForConfigOrDie(config)}
	socket := filepath.Join(*root, "plugins", *name, "dra.sock")
	check(os.MkdirAll(filepath.Dir(socket), 0o750))
	helper, err := kubeletplugin.Start(ctx, []any{d},
		kubeletplugin.DriverName(*name), kubeletplugin.NodeName(*node), kubeletplugin.KubeClient(d.client),
		kubeletplugin.RegistrarSocketPath(filepath.Join(*root, "plugins_registry", *name+"-reg.sock")),
		kubeletplugin.PluginSocketPath(socket), kubeletplugin.KubeletPluginSocketPath(socket))
	check(err)
	defer helper.Stop()
	devices := make([]resourceapi.Device, *count)
	for i := range devices {
		devices[i] = resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), Basic: &resourceapi.BasicDevice{}}
	}
	check(helper.PublishResources(ctx, kubeletplugin.Resources{Devices: devices}))
	<-ctx.Done()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
