package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// offered is what every typed client offers.
type offered[T, L any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// clearable is what all but services offer besides.
type clearable interface {
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
}

// described is what those offer that have a status.
type described[T any] interface {
	UpdateStatus(context.Context, T, metav1.UpdateOptions) (T, error)
}

// kind is an object to be made, and the typed client to make it with.
type kind[T metav1.Object, L any] struct {
	object T
	client offered[T, L]
}

// of pairs them: the type of the list is the client's.
func of[T metav1.Object, L any, C offered[T, L]](object T, client C) kind[T, L] {
	return kind[T, L]{object, client}
}

// story is what can be lived through: every kind of objects and lists.
type story interface {
	live(t *testing.T, ns, name string) []step
}

// TestKinds: a typed client gets the same answers in protobuf as in JSON, all through an object's life.
func TestKinds(t *testing.T) {
	for what := range kinds(typed(t, asJSON), "") {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := unique("object")
			seen := map[encoding][]step{}
			for _, e := range encodings {
				ns := namespace(t)
				seen[e] = kinds(typed(t, e), ns)[what].live(t, ns, name)
			}
			for i, written := range seen[asJSON] {
				equal(t, written.Did+": protobuf and JSON", seen[asProtobuf][i], written)
			}
			dump(t, seen[asJSON])
		})
	}
}

// step is what one request answered.
type step struct {
	Did   string
	Saw   any    `json:",omitempty"`
	Error string `json:",omitempty"`
}

// live goes through the life of an object: each request's answer, without what differs between any two runs.
func (k kind[T, L]) live(t *testing.T, ns, name string) (steps []step) {
	ctx, client, object := background(t), k.client, k.object
	did := func(what string, value any, err error) {
		if err != nil {
			steps = append(steps, step{Did: what, Error: plain(t, err.Error(), ns, name).(string)})
			return
		}
		steps = append(steps, step{Did: what, Saw: plain(t, value, ns, name)})
	}
	object.SetName(name)
	object.SetLabels(map[string]string{"test": name})
	ours := metav1.ListOptions{LabelSelector: "test=" + name}

	made, err := client.Create(ctx, object, metav1.CreateOptions{})
	check(t, err)
	did("create", made, nil)
	_, err = client.Create(ctx, object, metav1.CreateOptions{})
	did("create again", nil, err)
	got, err := client.Get(ctx, name, metav1.GetOptions{})
	did("get", got, err)

	from := ours
	from.ResourceVersion = made.GetResourceVersion()
	watching := must(client.Watch(ctx, from))(t)
	defer watching.Stop()

	got.SetAnnotations(map[string]string{"updated": "yes"})
	updated, err := client.Update(ctx, got, metav1.UpdateOptions{FieldManager: "editor"})
	did("update", updated, err)
	if status, ok := any(client).(described[T]); ok {
		updated.SetLabels(map[string]string{"test": name, "status": "yes"})
		updated.SetAnnotations(map[string]string{"status": "yes"})
		updated, err = status.UpdateStatus(ctx, updated, metav1.UpdateOptions{FieldManager: "controller"})
		did("update of the status", updated, err)
	}
	stale := made
	stale.SetLabels(map[string]string{"test": name, "stale": "yes"})
	_, err = client.Update(ctx, stale, metav1.UpdateOptions{})
	did("update with an old version", nil, err)
	merged, err := client.Patch(ctx, name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"updated":null,"merged":"yes"},"finalizers":["example.com/hold"]}}`),
		metav1.PatchOptions{FieldManager: "merger"})
	did("merge patch", merged, err)
	merged, err = client.Patch(ctx, name, types.StrategicMergePatchType,
		[]byte(`{"metadata":{"labels":{"patched":"yes"}}}`), metav1.PatchOptions{FieldManager: "patcher"})
	did("strategic merge patch", merged, err)
	patched, err := client.Patch(ctx, name, types.JSONPatchType,
		[]byte(`[{"op":"test","path":"/metadata/annotations/merged","value":"yes"},{"op":"remove","path":"/metadata/annotations"}]`),
		metav1.PatchOptions{})
	did("JSON patch", patched, err)
	list, err := client.List(ctx, ours)
	did("list", list, err)

	wrong := metav1.NewPreconditionDeleteOptions("00000000-0000-0000-0000-000000000000")
	did("delete another", nil, client.Delete(ctx, name, *wrong))
	now := int64(0)
	did("delete", nil, client.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	_, err = client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	did("let go", nil, err)
	_, err = client.Get(ctx, name, metav1.GetOptions{})
	did("get what is gone", nil, err)
	if !apierrors.IsNotFound(err) {
		t.Errorf("%s is still there: %v", name, err)
	}
	for event := range watching.ResultChan() {
		did("saw "+string(event.Type), event.Object, nil)
		if event.Type == watch.Deleted {
			break
		}
	}
	if all, ok := any(client).(clearable); ok {
		check(t, all.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, ours))
	}
	return steps
}

// passing is what differs in texts: identities, and addresses in Go's memory.
var passing = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]{8,}`)

// plain is a value's JSON without versions, identities, times and the namespace's and object's own names.
func plain(t *testing.T, value any, ns, name string) any {
	t.Helper()
	raw := must(json.Marshal(value))(t)
	var out any
	check(t, json.Unmarshal(raw, &out))
	return scrub(out, ns, name)
}

func scrub(value any, ns, name string) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			switch key {
			case "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "lastPhaseTransitionTime":
				delete(value, key)
			default:
				value[key] = scrub(value[key], ns, name)
			}
			if entries, ok := value[key].([]any); ok && key == "managedFields" {
				// A server sorts them by their times, so that their order depends on when a second ends.
				slices.SortFunc(entries, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
	case []any:
		for i := range value {
			value[i] = scrub(value[i], ns, name)
		}
	case string:
		for _, own := range []string{ns, name} {
			value = strings.ReplaceAll(value, own, "…")
		}
		return passing.ReplaceAllString(value, "…")
	}
	return value
}
