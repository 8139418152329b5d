// Package framework of Kubernetes' integration tests: this takes the place of its test_server.go, and starts a program.
package framework

import (
	"context"
	"os"
	"path"
	"reflect"
	"strconv"
	"sync"
	"testing"

	"github.com/google/uuid"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	kubeapiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// TestServerSetup is what a test changes in a server.
type TestServerSetup struct {
	ModifyServerRunOptions func(*options.ServerRunOptions)
	ModifyServerConfig     func(*controlplane.Config)
	DisableInvariantChecks bool
}

// TearDownFunc ends a server.
type TearDownFunc func()

// StartTestServer starts a server with RBAC; returns its client. A test is skipped if it changes what no flag expresses.
func StartTestServer(ctx context.Context, t testing.TB, setup TestServerSetup) (kubernetes.Interface, *rest.Config, TearDownFunc) {
	t.Helper()
	opts, gates, err := kubeapiservertesting.NewOptions()
	check(t, err)
	if setup.ModifyServerConfig != nil && !applyConfig(setup.ModifyServerConfig, opts) {
		t.Skip("needs a server in the process of the test")
	}
	folder, err := os.MkdirTemp("", "test-integration")
	check(t, err)
	opts.SecureServing.ServerCert.CertDirectory = folder
	check(t, kubeapiservertesting.AddServiceAccountKey(opts))
	check(t, kubeapiservertesting.AddAuthorities(opts, nil))
	opts.Etcd.StorageConfig.Prefix = path.Join("/", uuid.NewString(), "registry")
	opts.Etcd.StorageConfig.Transport.ServerList = []string{GetEtcdURL()}
	opts.EndpointReconcilerType = "none"
	opts.ServiceClusterIPRanges = "10.0.0.0/24"
	opts.Authentication.RequestHeader.AllowedNames = []string{"kube-aggregator"}
	opts.Authentication.APIAudiences = opts.Authentication.ServiceAccounts.Issuers
	opts.Authorization.Modes = []string{"Node", "RBAC"}
	if setup.ModifyServerRunOptions != nil {
		setup.ModifyServerRunOptions(opts)
	}
	check(t, gates.Apply(t))
	program, err := kubeapiservertesting.Start(t, opts, gates, true)
	check(t, err)
	end := sync.OnceFunc(func() {
		if !setup.DisableInvariantChecks && ctx.Err() == nil {
			program.CheckMetrics(t)
		}
		program.Stop()
		check(t, os.RemoveAll(folder))
	})
	return kubernetes.NewForConfigOrDie(program.ClientConfig), program.ClientConfig, end
}

// applyConfig sets the flag for what a function changes in the configuration of a server. It reports false if there is
// none: so far only versions and resources that are served have one.
func applyConfig(modify func(*controlplane.Config), opts *options.ServerRunOptions) (applied bool) {
	defer func() {
		if recover() != nil { // it looks for what only a server has
			applied = false
		}
	}()
	config, untouched := emptyConfig(), emptyConfig()
	modify(config)
	served, ok := config.ControlPlane.Extra.APIResourceConfigSource.(*storage.ResourceConfig)
	if ok {
		for version, on := range served.GroupVersionConfigs {
			opts.APIEnablement.RuntimeConfig[version.String()] = strconv.FormatBool(on)
		}
		for resource, on := range served.ResourceConfigs {
			name := resource.GroupVersion().String() + "/" + resource.Resource
			opts.APIEnablement.RuntimeConfig[name] = strconv.FormatBool(on)
		}
		config.ControlPlane.Extra.APIResourceConfigSource = nil
	}
	return reflect.DeepEqual(config, untouched)
}

func emptyConfig() *controlplane.Config {
	return &controlplane.Config{ControlPlane: controlplaneapiserver.Config{Generic: &server.Config{}}}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
