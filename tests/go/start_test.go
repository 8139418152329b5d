package clients

import (
	"bufio"
	"context"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startServer runs `understudy serve`, with more flags, until the test ends.
func startServer(t *testing.T, flags ...string) *rest.Config {
	t.Helper()
	server := exec.Command("understudy", append([]string{"serve", "--port=0"}, flags...)...)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, url, ready := strings.Cut(strings.TrimSpace(line), " API at ")
	if !ready {
		t.Fatalf("understudy said %q: %v", line, err)
	}
	return &rest.Config{Host: url}
}

// The way into a suite that docs/howto/go.md shows.
func TestStartedServer(t *testing.T) {
	config := startServer(t, "--emulated-version=1.34")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	_, err = client.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "spec.containers: Required value") {
		t.Errorf("a pod without containers: %v", err)
	}
}

func TestStartedServerWithEnvtest(t *testing.T) {
	environment := &envtest.Environment{
		UseExistingCluster: ptr.To(true),
		Config:             startServer(t),
	}
	if _, err := environment.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = environment.Stop() })
}
