package clients

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
)

// TestConflictRetries: of writers that all read, add one and write, none loses its one if each repeats on conflict.
func TestConflictRetries(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, client := background(t), typed(t, e).CoreV1().ConfigMaps(namespace(t))
			must(client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "count"}}, metav1.CreateOptions{}))(t)
			var all sync.WaitGroup
			many := wait.Backoff{Steps: 500, Duration: 5 * time.Millisecond, Factor: 1, Jitter: 2}
			for range 5 {
				all.Add(1)
				go func() {
					defer all.Done()
					for range 4 {
						if err := retry.RetryOnConflict(many, func() error {
							count, err := client.Get(ctx, "count", metav1.GetOptions{})
							if err != nil {
								return err
							}
							value, _ := strconv.Atoi(count.Data["value"])
							count.Data = map[string]string{"value": strconv.Itoa(value + 1)}
							_, err = client.Update(ctx, count, metav1.UpdateOptions{})
							return err
						}); err != nil {
							t.Error(err)
						}
					}
				}()
			}
			all.Wait()
			equal(t, "the count", must(client.Get(ctx, "count", metav1.GetOptions{}))(t).Data["value"], "20")
		})
	}
}

// TestPager: a pager reads a collection page by page as it was at its first page, whatever is deleted or made
// meanwhile; the pages say how many remain.
func TestPager(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, client := background(t), typed(t, e).CoreV1().ConfigMaps(namespace(t))
			for i := range 23 {
				made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%02d", i)}}
				must(client.Create(ctx, made, metav1.CreateOptions{}))(t)
			}
			var remaining []int64
			pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				page, err := client.List(ctx, o)
				if err == nil && page.RemainingItemCount != nil {
					remaining = append(remaining, *page.RemainingItemCount)
				}
				if o.Continue == "" {
					check(t, client.Delete(ctx, "c-20", metav1.DeleteOptions{}))
					late := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c-99"}}
					must(client.Create(ctx, late, metav1.CreateOptions{}))(t)
				}
				return page, err
			})
			pages.PageSize = 5
			pages.PageBufferSize = 0
			var names []string
			check(t, pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
				names = append(names, item.(*corev1.ConfigMap).Name)
				return nil
			}))
			equal(t, "how many", len(names), 23)
			equal(t, "the deleted one", names[20], "c-20")
			equal(t, "what remained", remaining, []int64{18, 13, 8, 3})
			_, err := client.List(ctx, metav1.ListOptions{Limit: 5, Continue: "nonsense"})
			if !apierrors.IsBadRequest(err) {
				t.Errorf("a token of nonsense: %v", err)
			}
		})
	}
}

// TestLeaderElection: of two candidates one leads; when it lets go, the other one does.
func TestLeaderElection(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ns, client := namespace(t), typed(t, e)
			led := make(chan string, 2)
			stops := map[string]context.CancelFunc{}
			var all sync.WaitGroup
			for _, name := range []string{"one", "two"} {
				ctx, cancel := context.WithCancel(background(t))
				stops[name] = cancel
				elector := must(leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
					Lock: &resourcelock.LeaseLock{
						LeaseMeta:  metav1.ObjectMeta{Namespace: ns, Name: "leader"},
						Client:     client.CoordinationV1(),
						LockConfig: resourcelock.ResourceLockConfig{Identity: name},
					},
					LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 50 * time.Millisecond,
					ReleaseOnCancel: true,
					Callbacks: leaderelection.LeaderCallbacks{
						OnStartedLeading: func(context.Context) { led <- name },
						OnStoppedLeading: func() {},
					},
				}))(t)
				all.Add(1)
				go func() { defer all.Done(); elector.Run(ctx) }()
			}
			first := <-led
			stops[first]()
			second := <-led
			if first == second {
				t.Errorf("%s led twice", first)
			}
			lease := must(client.CoordinationV1().Leases(ns).Get(background(t), "leader", metav1.GetOptions{}))(t)
			equal(t, "the holder", *lease.Spec.HolderIdentity, second)
			equal(t, "how often it changed hands", *lease.Spec.LeaseTransitions, int32(1))
			stops[second]()
			all.Wait()
		})
	}
}

// TestEventRecorders: an event told again raises the count of the first, by a patch; one of events.k8s.io is the same
// object as seen through the core group.
func TestEventRecorders(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns, client := background(t), namespace(t), typed(t, e)
			about := must(client.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "it"}}, metav1.CreateOptions{}))(t)
			about.Kind, about.APIVersion = "ConfigMap", "v1"

			broadcaster := record.NewBroadcaster()
			defer broadcaster.Shutdown()
			broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events(ns)})
			recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "tester"})
			for range 3 {
				recorder.Eventf(about, "Normal", "Tested", "in %s", e.name)
			}
			counted := metav1.ListOptions{FieldSelector: "involvedObject.name=it,reason=Tested,source=tester"}
			eventually(t, "one event, counted three times", func() (bool, error) {
				list, err := client.CoreV1().Events(ns).List(ctx, counted)
				return err == nil && len(list.Items) == 1 && list.Items[0].Count == 3, err
			})

			newer := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
			defer newer.Shutdown()
			check(t, newer.StartRecordingToSinkWithContext(ctx))
			newer.NewRecorder(scheme.Scheme, "example.com/tester").Eventf(about, nil, "Warning", "Failed", "Testing", "by %s", e.name)
			var made eventsv1.Event
			eventually(t, "the newer event", func() (bool, error) {
				list, err := client.EventsV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=Failed"})
				if err == nil && len(list.Items) == 1 {
					made = list.Items[0]
				}
				return made.Name != "", err
			})
			old := must(client.CoreV1().Events(ns).Get(ctx, made.Name, metav1.GetOptions{}))(t)
			equal(t, "its text", old.Message, "by "+e.name)
			equal(t, "its object", old.InvolvedObject, made.Regarding)
			equal(t, "its reporter", old.ReportingController, "example.com/tester")
			equal(t, "its identity", old.UID, made.UID)
		})
	}
}
