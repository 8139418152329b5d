package clients

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/spec3"
)

// What Kubernetes' e2e test "OpenAPIV3 should round trip" asks for, of every document.
func TestOpenAPIV3RoundTrip(t *testing.T) {
	paths := must(typed(t, asJSON).Discovery().OpenAPIV3().Paths())(t)
	if len(paths) < 40 {
		t.Fatalf("only %d documents", len(paths))
	}
	for name, document := range paths {
		t.Run(name, func(t *testing.T) {
			published := must(document.Schema(runtime.ContentTypeJSON))(t)
			var spec spec3.OpenAPI
			if err := json.Unmarshal(published, &spec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(generic(t, published), generic(t, must(json.Marshal(&spec))(t))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// generic is JSON as maps and lists.
func generic(t *testing.T, document []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(document, &value); err != nil {
		t.Fatal(err)
	}
	return value
}
