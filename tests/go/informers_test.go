package clients

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// seen is what an informer's handlers were told: the data of each object, and what was wrong with the telling.
type seen struct {
	lock   sync.Mutex
	data   map[string]string
	wrongs []string
}

func (s *seen) note(what string, object any) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	config := object.(*corev1.ConfigMap)
	_, known := s.data[config.Name]
	if known != (what != "add") {
		s.wrongs = append(s.wrongs, fmt.Sprintf("%s of %s, known: %t", what, config.Name, known))
	}
	if what == "delete" {
		delete(s.data, config.Name)
	} else {
		s.data[config.Name] = config.Data["turn"]
	}
}

func (s *seen) handlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.note("add", object) },
		UpdateFunc: func(_, object any) { s.note("update", object) },
		DeleteFunc: func(object any) { s.note("delete", object) },
	}
}

func (s *seen) is(want map[string]string) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(want) != len(s.data) {
		return false
	}
	for name, turn := range want {
		if s.data[name] != turn {
			return false
		}
	}
	return true
}

// TestInformersOverCutConnections: an informer whose connections are cut again and again ends with what the server
// holds, and never tells of an object twice or of one that it did not tell of before. Lists are streamed or not.
func TestInformersOverCutConnections(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		for _, e := range encodings {
			t.Run(fmt.Sprintf("%s streamed=%t", e.name, streamed), func(t *testing.T) {
				featurestesting.SetFeatureDuringTest(t, features.WatchListClient, streamed)
				informed(t, e)
			})
		}
	}
}

func informed(t *testing.T, e encoding) {
	ctx, ns, way := background(t), namespace(t), newProxy(t)
	factory := informers.NewSharedInformerFactoryWithOptions(
		must(kubernetes.NewForConfig(way.through(e)))(t), 0, informers.WithNamespace(ns),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "watched=yes" }))
	informer := factory.Core().V1().ConfigMaps().Informer()
	told := &seen{data: map[string]string{}}
	must(informer.AddEventHandler(told.handlers()))(t)
	stop, cancel := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer cancel()
	factory.Start(stop.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("never synced")
	}

	client := typed(t, e).CoreV1().ConfigMaps(ns)
	want := map[string]string{}
	for turn := range 4 {
		connections := way.connections()
		for i := range 5 {
			made := &corev1.ConfigMap{Data: map[string]string{"turn": fmt.Sprint(turn)}}
			made.Name, made.Labels = fmt.Sprintf("c-%d-%d", turn, i), map[string]string{"watched": "yes"}
			must(client.Create(ctx, made, metav1.CreateOptions{}))(t)
			want[made.Name] = made.Data["turn"]
			if i == 2 {
				way.cut()
			}
		}
		if turn > 0 { // of the turn before: one goes, one leaves the selection, one changes
			before := fmt.Sprintf("c-%d-", turn-1)
			check(t, client.Delete(ctx, before+"0", metav1.DeleteOptions{}))
			unlabelled := must(client.Get(ctx, before+"1", metav1.GetOptions{}))(t)
			unlabelled.Labels = nil
			must(client.Update(ctx, unlabelled, metav1.UpdateOptions{}))(t)
			changed := must(client.Get(ctx, before+"2", metav1.GetOptions{}))(t)
			changed.Data["turn"] = "changed"
			must(client.Update(ctx, changed, metav1.UpdateOptions{}))(t)
			delete(want, before+"0")
			delete(want, before+"1")
			want[before+"2"] = "changed"
		}
		eventually(t, "the informer's own new connection", func() (bool, error) { return way.connections() > connections, nil })
	}
	eventually(t, "the handlers know what is there", func() (bool, error) { return told.is(want), nil })
	equal(t, "what was told wrong", told.wrongs, nil)

	listed := must(client.List(ctx, metav1.ListOptions{LabelSelector: "watched=yes"}))(t)
	kept := must(factory.Core().V1().ConfigMaps().Lister().ConfigMaps(ns).List(labels.Everything()))(t)
	byName := map[string]corev1.ConfigMap{}
	for _, item := range kept {
		byName[item.Name] = *item
	}
	equal(t, "how many the informer keeps", len(kept), len(listed.Items))
	for _, item := range listed.Items {
		equal(t, "what the informer keeps of "+item.Name, byName[item.Name], item)
	}
}

// TestRetriedWatch: a retry watcher goes on, after a cut, from the version that it saw last: nothing is missed and
// nothing comes twice. A watch of one object by name ends with its deletion.
func TestRetriedWatch(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns, way := background(t), namespace(t), newProxy(t)
			client := typed(t, e).CoreV1().ConfigMaps(ns)
			cuttable := must(kubernetes.NewForConfig(way.through(e)))(t).CoreV1().ConfigMaps(ns)
			one := must(client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}))(t)
			must(client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}))(t)
			byName := fields.OneTermEqualSelector("metadata.name", "one").String()
			watcher := must(watchtools.NewRetryWatcher(one.ResourceVersion, &cache.ListWatch{
				WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) {
					o.FieldSelector = byName
					return cuttable.Watch(ctx, o)
				},
			}))(t)
			defer watcher.Stop()
			for turn := range 6 {
				one.Data = map[string]string{"turn": fmt.Sprint(turn)}
				one = must(client.Update(ctx, one, metav1.UpdateOptions{}))(t)
				event := next(t, watcher)
				equal(t, "event", event.Type, watch.Modified)
				equal(t, "object", event.Object, runtime.Object(one))
				if turn%2 == 0 {
					way.cut()
				}
			}
			check(t, client.Delete(ctx, "one", metav1.DeleteOptions{}))
			equal(t, "last event", next(t, watcher).Type, watch.Deleted)
		})
	}
}

func next(t *testing.T, watcher watch.Interface) watch.Event {
	t.Helper()
	select {
	case event, open := <-watcher.ResultChan():
		if !open {
			t.Fatal("the watch ended")
		}
		return event
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
	}
	return watch.Event{}
}

// TestWatchOptions: a watch ends after its timeoutSeconds with a last bookmark, which names a version to go on from;
// one from an old version repeats what happened since; sendInitialEvents begins with what is there, in both encodings.
func TestWatchOptions(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := background(t), namespace(t)
			client := typed(t, e).CoreV1().ConfigMaps(ns)
			first := must(client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}))(t)
			second := must(client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{}))(t)

			timeout := int64(3)
			began := time.Now()
			watching := must(client.Watch(ctx, metav1.ListOptions{
				ResourceVersion: first.ResourceVersion, TimeoutSeconds: &timeout, AllowWatchBookmarks: true,
			}))(t)
			added := next(t, watching)
			equal(t, "what happened since", added.Object, runtime.Object(second))
			for event := range watching.ResultChan() {
				equal(t, "then", event.Type, watch.Bookmark)
				if version := event.Object.(*corev1.ConfigMap).ResourceVersion; version < second.ResourceVersion {
					t.Errorf("a bookmark of the past: %s", version)
				}
			}
			if took := time.Since(began); took < 2*time.Second || took > 6*time.Second {
				t.Errorf("a watch of 3 s took %s", took)
			}

			yes := true
			watching = must(client.Watch(ctx, metav1.ListOptions{
				SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			}))(t)
			defer watching.Stop()
			names := map[string]bool{}
			for {
				event := next(t, watching)
				if event.Type == watch.Bookmark {
					equal(t, "the end of the beginning",
						event.Object.(*corev1.ConfigMap).Annotations[metav1.InitialEventsAnnotationKey], "true")
					break
				}
				names[event.Object.(*corev1.ConfigMap).Name] = true
			}
			equal(t, "what is there", names, map[string]bool{"a": true, "b": true})
		})
	}
}
