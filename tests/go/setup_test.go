// Package clients drives a running API server with the Go clients that people use, unmodified: client-go,
// controller-runtime and the driver helpers of Dynamic Resource Allocation. What these tests state holds for
// kube-apiserver of the same release as well: run them against one to see it.
//
//	UNDERSTUDY_URL=http://127.0.0.1:8001 go test .
//	UNDERSTUDY_URL=https://127.0.0.1:6443 UNDERSTUDY_TOKEN=… go test .
//
// Every test works in namespaces and with cluster-scoped names of its own, so the server may be shared.
package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// encoding is how a client asks and is answered.
type encoding struct{ name, contentType, accept string }

var (
	asJSON     = encoding{"json", runtime.ContentTypeJSON, runtime.ContentTypeJSON}
	asProtobuf = encoding{"protobuf", runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON}
	encodings  = []encoding{asJSON, asProtobuf}
)

func TestMain(m *testing.M) {
	if os.Getenv("UNDERSTUDY_URL") == "" {
		fmt.Fprintln(os.Stderr, "set UNDERSTUDY_URL to the address of the server to test")
		os.Exit(2)
	}
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// config says where the server is, for clients that speak the given encoding.
func config(e encoding) *rest.Config {
	return &rest.Config{
		Host:            os.Getenv("UNDERSTUDY_URL"),
		BearerToken:     os.Getenv("UNDERSTUDY_TOKEN"),
		TLSClientConfig: rest.TLSClientConfig{Insecure: strings.HasPrefix(os.Getenv("UNDERSTUDY_URL"), "https:")},
		ContentConfig:   rest.ContentConfig{ContentType: e.contentType, AcceptContentTypes: e.accept},
		QPS:             -1,
		UserAgent:       "clients/1",
	}
}

func typed(t *testing.T, e encoding) kubernetes.Interface {
	t.Helper()
	return must(kubernetes.NewForConfig(config(e)))(t)
}

// must ends the test on an error: `must(f())(t)` is the value of f.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if difference := cmp.Diff(want, got, cmpopts.EquateEmpty()); difference != "" {
		t.Errorf("%s (- wanted, + got):\n%s", what, difference)
	}
}

// background is a context that ends with the test, at the latest after a minute.
func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// unique is a name that no other test, and no other run, uses.
func unique(prefix string) string { return prefix + "-" + rand.String(8) }

// namespace makes one, and asks for its deletion when the test is over.
func namespace(t *testing.T) string {
	t.Helper()
	client := typed(t, asJSON).CoreV1().Namespaces()
	made := must(client.Create(background(t), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "go-"},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = client.Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
	return made.Name
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() (bool, error)) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(background(t), 20*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) {
			done, err := condition()
			last = err
			return done, nil
		})
	if err != nil {
		t.Fatalf("%s: never (%v)", what, last)
	}
}

// dump keeps what a test saw in the folder $UNDERSTUDY_OUT, so that the answers of two servers can be compared.
func dump(t *testing.T, value any) {
	t.Helper()
	folder := os.Getenv("UNDERSTUDY_OUT")
	if folder == "" {
		return
	}
	raw := must(json.MarshalIndent(value, "", "  "))(t)
	check(t, os.WriteFile(filepath.Join(folder, strings.ReplaceAll(t.Name(), "/", "_")+".json"), raw, 0o600))
}
