package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// cacheFaults are what the lists and watches of caches meet, as understudy's /understudy/faults takes them.
var cacheFaults = map[string]string{
	"429":              `{"fault": "tooManyRequests", "retryAfter": 0, "times": 3}`,
	"500":              `{"fault": "serverError", "times": 2}`,
	"503":              `{"fault": "serviceUnavailable", "retryAfter": 0, "times": 3}`,
	"504":              `{"fault": "timeout", "times": 2}`,
	"reset":            `{"fault": "reset", "times": 2}`,
	"reset in a list":  `{"fault": "reset", "afterBytes": 10, "verb": "list", "times": 2}`,
	"delay":            `{"fault": "delay", "seconds": 0.2}`,
	"hang":             `{"fault": "hang", "times": 2}`,
	"slow":             `{"fault": "slow", "bytesPerSecond": 4000}`,
	"stale":            `{"fault": "stale", "behind": 3}`,
	"cut watch":        `{"fault": "cutWatch", "events": 2, "times": 3}`,
	"reset watch":      `{"fault": "cutWatch", "events": 1, "reset": true, "times": 3}`,
	"expired":          `{"fault": "expired", "verb": "watch", "times": 2}`,
	"expired in watch": `{"fault": "expired", "events": 2, "times": 2}`,
	"no bookmarks":     `{"fault": "noBookmarks"}`,
	"chaos":            `{"chaos": {"seed": 7, "share": 0.5}}`,
}

// unmet are faults that need not happen: chaos is a matter of the namespace's name, no bookmark is due so soon, and where
// lists are streamed no watch goes on from one.
func unmet(name string, streamed bool) bool {
	return name == "chaos" || name == "no bookmarks" || streamed && (name == "stale" || name == "expired" || name == "reset in a list")
}

// TestFaultsOfCaches: an informer of client-go and a cache of controller-runtime that meet a fault end with what the
// server holds, and their handlers are told of every object once. Only understudy can be asked for faults.
func TestFaultsOfCaches(t *testing.T) {
	if status, _ := ask[any](t, http.MethodGet, "/understudy/faults", ""); status == http.StatusNotFound {
		t.Skip("the server has no /understudy/faults")
	}
	for _, streamed := range []bool{false, true} {
		t.Run(fmt.Sprintf("streamed=%t", streamed), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, streamed)
			t.Run("faults", func(t *testing.T) {
				for name, fault := range cacheFaults {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						if fired := survived(t, fault); fired == 0 && !unmet(name, streamed) {
							t.Error("the fault has not happened")
						}
					})
				}
			})
		})
	}
}

// TestCachesOverADay: caches follow a server for a day of its clock, which is moved on while they watch and reconnect and
// a part of their requests fails. The clock is that of all clients, so this test wants a server of its own.
func TestCachesOverADay(t *testing.T) {
	if os.Getenv("UNDERSTUDY_DAY") == "" {
		t.Skip("set UNDERSTUDY_DAY for a server whose clock may be moved")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	ns, agent, client := namespace(t), unique("faulty"), typed(t, asJSON).CoreV1()
	clock := func(body string) {
		status, _ := ask[any](t, http.MethodPost, "/understudy/clock", body)
		equal(t, "status", status, http.StatusOK)
	}
	chaos := fmt.Sprintf(`{"chaos": {"seed": 7, "share": 0.1}, "resource": "configmaps", "userAgent": %q}`, agent)
	_, added := ask[rule](t, http.MethodPost, "/understudy/faults", chaos)
	clock(`{"frozen": true}`)
	told, cached := informerOf(ctx, t, ns, agent, 0), cacheOf(ctx, t, ns, agent, 0)
	want := map[string]string{}
	for step := range 288 {
		made := &corev1.ConfigMap{Data: map[string]string{"turn": "0"}}
		made.Name = fmt.Sprintf("object-%d", step)
		made = must(client.ConfigMaps(ns).Create(ctx, made, metav1.CreateOptions{}))(t)
		if step%2 == 0 {
			made.Data["turn"] = "1"
			made = must(client.ConfigMaps(ns).Update(ctx, made, metav1.UpdateOptions{}))(t)
		}
		want[made.Name] = made.Data["turn"]
		if old := fmt.Sprintf("object-%d", step-10); step%3 == 0 && step > 10 {
			check(t, client.ConfigMaps(ns).Delete(ctx, old, metav1.DeleteOptions{}))
			delete(want, old)
		}
		clock(`{"advance": "5m"}`)
		time.Sleep(50 * time.Millisecond) // clients live in their own time
	}
	_, found := ask[rule](t, http.MethodGet, fmt.Sprintf("/understudy/faults/%d", added.ID), "")
	t.Logf("%d requests, %d faults", found.Matched, found.Fired)
	if found.Fired == 0 {
		t.Error("no fault has happened")
	}
	ask[any](t, http.MethodDelete, fmt.Sprintf("/understudy/faults/%d", added.ID), "")
	clock(`{"frozen": false}`)
	for what, s := range map[string]*seen{"informer": told, "cache": cached} {
		for range 3 { // after an error a client may wait for a minute
			if s.is(want) || ctx.Err() != nil {
				break
			}
			time.Sleep(20 * time.Second)
		}
		eventually(t, what, func() (bool, error) { return s.is(want), fmt.Errorf("saw %v, not %v", s.data, want) })
		equal(t, "wrong events of "+what, s.wrongs, nil)
	}
}

// rule is what the server tells of a fault.
type rule struct{ ID, Matched, Fired int }

// survived lets two caches meet a fault while objects change, and says how often it happened.
func survived(t *testing.T, fault string) int {
	agent := unique("faulty")
	var document map[string]any
	check(t, json.Unmarshal([]byte(fault), &document))
	document["userAgent"], document["resource"] = agent, "configmaps"
	raw := must(json.Marshal(document))(t)
	status, added := ask[rule](t, http.MethodPost, "/understudy/faults", string(raw))
	equal(t, "status", status, http.StatusOK)
	path := fmt.Sprintf("/understudy/faults/%d", added.ID)
	t.Cleanup(func() { ask[any](t, http.MethodDelete, path, "") })

	ctx, ns := background(t), namespace(t)
	var timeout time.Duration // none: as long as it takes, as clients do by default
	if document["fault"] == "hang" {
		timeout = 2 * time.Second
	}
	told, cached := informerOf(ctx, t, ns, agent, timeout), cacheOf(ctx, t, ns, agent, timeout)
	want := changed(ctx, t, ns)
	for what, s := range map[string]*seen{"informer": told, "cache": cached} {
		eventually(t, what, func() (bool, error) { return s.is(want), fmt.Errorf("saw %v, not %v", s.data, want) })
		equal(t, "wrong events of "+what, s.wrongs, nil)
	}
	_, found := ask[rule](t, http.MethodGet, path, "")
	return found.Fired
}

// informerOf starts an informer of client-go, whose requests may have a timeout.
func informerOf(ctx context.Context, t *testing.T, ns, agent string, timeout time.Duration) *seen {
	told, faulty := &seen{data: map[string]string{}}, config(asJSON)
	faulty.UserAgent, faulty.Timeout = agent, timeout
	client := must(kubernetes.NewForConfig(faulty))(t)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(ns))
	must(factory.Core().V1().ConfigMaps().Informer().AddEventHandler(told.handlers()))(t)
	factory.Start(ctx.Done())
	return told
}

// cacheOf starts a cache of controller-runtime, whose discovery meets no faults and whose requests may have a timeout.
func cacheOf(ctx context.Context, t *testing.T, ns, agent string, timeout time.Duration) *seen {
	cached, faulty := &seen{data: map[string]string{}}, config(asProtobuf)
	faulty.UserAgent, faulty.Timeout = agent, timeout
	objects := must(cache.New(faulty, cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}}))(t)
	informer := must(objects.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false)))(t)
	must(informer.AddEventHandler(cached.handlers()))(t)
	go func() { _ = objects.Start(ctx) }()
	return cached
}

// changed creates, updates and deletes objects for a second, and returns what is left of them.
func changed(ctx context.Context, t *testing.T, ns string) map[string]string {
	client, want := typed(t, asJSON).CoreV1().ConfigMaps(ns), map[string]string{}
	for turn := range 20 {
		name := fmt.Sprintf("object-%d", turn)
		made := must(client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Data:       map[string]string{"turn": "0"},
		}, metav1.CreateOptions{}))(t)
		if turn%2 == 0 {
			made.Data["turn"] = "1"
			made = must(client.Update(ctx, made, metav1.UpdateOptions{}))(t)
		}
		want[name] = made.Data["turn"]
		if turn%3 == 0 {
			check(t, client.Delete(ctx, name, metav1.DeleteOptions{}))
			delete(want, name)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return want
}

// ask sends a request to the control API, and returns status and answer.
func ask[T any](t *testing.T, method, path, body string) (int, T) {
	t.Helper()
	request := must(http.NewRequest(method, os.Getenv("UNDERSTUDY_URL")+path, bytes.NewBufferString(body)))(t)
	response := must(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	var answer T
	if response.StatusCode == http.StatusOK {
		check(t, json.NewDecoder(response.Body).Decode(&answer))
	}
	return response.StatusCode, answer
}
