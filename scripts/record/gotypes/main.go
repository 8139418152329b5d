// Command gotypes prints, as JSON, the facts about the Go types of the Kubernetes API that OpenAPI leaves
// out: the order of fields, which are pointers, which are left out when empty, protobuf field numbers, and
// the layout of the internal types that some error texts print.
//
// The answer is one object:
//
//	kinds    {"group/version/Kind": type}; the version of internal forms is __internal
//	structs  {type: [[Go name, JSON name, flags, type, protobuf field number], ...]} in the order of declaration
//	scalars  {type: kind} of named types that are not structs
//	deprecated  {"group/version/Kind": [deprecated, removed, replacement]} of the kinds with a lifecycle, as
//	         ["1.35", "1.38", "group/version/Kind"]; "" for no release or kind
//	locked   the feature gates that cannot be changed from their default
//	depends  {feature gate: the gates that have to be on for it}, from 1.35 on
//	plugins  the admission plugins in the order in which they are asked
//
// A type is written as Go writes it, with the full path of its package. Flags: o for omitempty, z for
// omitzero, i for inlined, u for not exported. A struct that encodes itself to JSON is in custom too.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
)

var (
	structs   = map[string][][]any{}
	scalars   = map[string]string{}
	custom    = map[string]bool{}
	marshaler = reflect.TypeOf((*json.Unmarshaler)(nil)).Elem()
)

// name returns a type as Go writes it, with the full path of its package.
func name(t reflect.Type) string {
	if t.Name() != "" {
		if t.PkgPath() == "" {
			return t.Name()
		}
		return t.PkgPath() + "." + t.Name()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + name(t.Elem())
	case reflect.Slice:
		return "[]" + name(t.Elem())
	case reflect.Map:
		return "map[" + name(t.Key()) + "]" + name(t.Elem())
	}
	return t.String()
}

// visit records a type and every type that its fields and elements reach.
func visit(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		visit(t.Elem())
		return
	case reflect.Slice, reflect.Array:
		visit(t.Elem())
	case reflect.Map:
		visit(t.Key())
		visit(t.Elem())
	}
	key := name(t)
	if t.PkgPath() == "" || strings.HasPrefix(t.PkgPath(), "time") || strings.HasPrefix(t.PkgPath(), "math") {
		return
	}
	if reflect.PointerTo(t).Implements(marshaler) {
		custom[key] = true
	}
	if t.Kind() != reflect.Struct {
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			if t.Kind() == reflect.Slice {
				scalars[key] = "[]" + name(t.Elem())
			} else {
				scalars[key] = "map[" + name(t.Key()) + "]" + name(t.Elem())
			}
			return
		}
		scalars[key] = t.Kind().String()
		return
	}
	if _, done := structs[key]; done {
		return
	}
	structs[key] = nil
	fields := [][]any{}
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		json, flags, number := "", "", 0
		parts := strings.Split(field.Tag.Get("json"), ",")
		json = parts[0]
		for _, option := range parts[1:] {
			switch option {
			case "omitempty":
				flags += "o"
			case "omitzero":
				flags += "z"
			}
		}
		if field.Anonymous && json == "" {
			flags += "i"
		} else if json == "" && field.IsExported() {
			json = field.Name
		}
		if !field.IsExported() {
			flags += "u"
		}
		if proto := strings.Split(field.Tag.Get("protobuf"), ","); len(proto) > 1 {
			fmt.Sscanf(proto[1], "%d", &number)
		}
		fields = append(fields, []any{field.Name, json, flags, name(field.Type), number})
		if field.IsExported() {
			visit(field.Type)
		}
	}
	structs[key] = fields
}

// release returns a minor release as text, "" for none.
func release(major, minor int) string {
	if major == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", major, minor)
}

// lifecycle returns when a kind was or will be deprecated and removed, and the kind that replaces it.
func lifecycle(t reflect.Type) ([]string, bool) {
	object := reflect.New(t).Interface()
	deprecated, ok := object.(interface{ APILifecycleDeprecated() (int, int) })
	if !ok {
		return nil, false
	}
	out := []string{release(deprecated.APILifecycleDeprecated()), "", ""}
	if removed, ok := object.(interface{ APILifecycleRemoved() (int, int) }); ok {
		out[1] = release(removed.APILifecycleRemoved())
	}
	if replaced, ok := object.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		kind := replaced.APILifecycleReplacement()
		out[2] = fmt.Sprintf("%s/%s/%s", kind.Group, kind.Version, kind.Kind)
	}
	return out, true
}

// gates returns the feature gates that are locked, and those that need others.
func gates() ([]string, map[featuregate.Feature][]featuregate.Feature) {
	locked := []string{}
	for gate, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if spec.LockToDefault {
			locked = append(locked, string(gate))
		}
	}
	sort.Strings(locked)
	type dependent interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	}
	if gate, ok := utilfeature.DefaultMutableFeatureGate.(dependent); ok {
		return locked, gate.Dependencies()
	}
	return locked, nil
}

func main() {
	kinds := map[string]string{}
	deprecated := map[string][]string{}
	extensions := runtime.NewScheme()
	apiextensions.Install(extensions)
	for _, scheme := range []*runtime.Scheme{legacyscheme.Scheme, extensions, aggregator.Scheme} {
		for kind, t := range scheme.AllKnownTypes() {
			key := fmt.Sprintf("%s/%s/%s", kind.Group, kind.Version, kind.Kind)
			kinds[key] = name(t)
			if life, ok := lifecycle(t); ok {
				deprecated[key] = life
			}
			visit(t)
		}
	}
	for _, extra := range []any{metav1.Status{}, metav1.Table{}, metav1.APIResourceList{}, metav1.APIGroupList{}, metav1.APIVersions{}, metav1.PartialObjectMetadataList{}, metav1beta1.PartialObjectMetadataList{}, apidiscoveryv2.APIGroupDiscoveryList{}, discoveryV2beta1} {
		visit(reflect.TypeOf(extra))
	}
	locked, depends := gates()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]any{
		"kinds": kinds, "structs": structs, "scalars": scalars, "custom": custom, "deprecated": deprecated, "locked": locked, "depends": depends,
		"plugins": options.AllOrderedPlugins,
	}); err != nil {
		panic(err)
	}
}
