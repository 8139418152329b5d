package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusteradmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	clusterconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var (
	boardsV1 = schema.GroupVersion{Group: "boards.example.com", Version: "v1"}
	boardsV2 = schema.GroupVersion{Group: "boards.example.com", Version: "v2"}
)

// boardV1 is the first version of a custom resource: its size is a text, "3x4".
type boardV1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Size string `json:"size,omitempty"`
	} `json:"spec,omitempty"`
	Status boardStatus `json:"status,omitempty"`
}

// boardV2 is the second version, in which boards are stored: its size is two numbers.
type boardV2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Rows    int `json:"rows,omitempty"`
		Columns int `json:"columns,omitempty"`
	} `json:"spec,omitempty"`
	Status boardStatus `json:"status,omitempty"`
}

type boardStatus struct {
	Fields int `json:"fields,omitempty"`
}

type boardV1List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []boardV1 `json:"items"`
}

type boardV2List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []boardV2 `json:"items"`
}

func (b *boardV1) DeepCopyObject() runtime.Object {
	copied := *b
	copied.ObjectMeta = *b.ObjectMeta.DeepCopy()
	return &copied
}

func (b *boardV2) DeepCopyObject() runtime.Object {
	copied := *b
	copied.ObjectMeta = *b.ObjectMeta.DeepCopy()
	return &copied
}

func (l *boardV1List) DeepCopyObject() runtime.Object {
	copied := &boardV1List{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, item := range l.Items {
		copied.Items = append(copied.Items, *item.DeepCopyObject().(*boardV1))
	}
	return copied
}

func (l *boardV2List) DeepCopyObject() runtime.Object {
	copied := &boardV2List{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, item := range l.Items {
		copied.Items = append(copied.Items, *item.DeepCopyObject().(*boardV2))
	}
	return copied
}

// Hub marks the version that the others are converted to and from.
func (b *boardV2) Hub() {}

func (b *boardV1) ConvertTo(hub conversion.Hub) error {
	to := hub.(*boardV2)
	to.ObjectMeta, to.Status = b.ObjectMeta, b.Status
	if b.Spec.Size == "" {
		return nil
	}
	if _, err := fmt.Sscanf(b.Spec.Size, "%dx%d", &to.Spec.Rows, &to.Spec.Columns); err != nil {
		return fmt.Errorf("size %q: %w", b.Spec.Size, err)
	}
	return nil
}

func (b *boardV1) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*boardV2)
	b.ObjectMeta, b.Status = from.ObjectMeta, from.Status
	b.Spec.Size = fmt.Sprintf("%dx%d", from.Spec.Rows, from.Spec.Columns)
	return nil
}

// boardRules are the defaulting and the validating webhook of boards.
type boardRules struct{}

func (boardRules) Default(_ context.Context, board *boardV2) error {
	if board.Spec.Columns == 0 {
		board.Spec.Columns = board.Spec.Rows
	}
	return nil
}

func (boardRules) ValidateCreate(_ context.Context, board *boardV2) (admission.Warnings, error) {
	if board.Spec.Rows > 100 {
		why := field.ErrorList{field.Invalid(field.NewPath("spec", "rows"), board.Spec.Rows, "must be at most 100")}
		return nil, apierrors.NewInvalid(boardsV2.WithKind("Board").GroupKind(), board.Name, why)
	}
	if board.Spec.Rows > 50 {
		return admission.Warnings{"a board of more than 50 rows is slow"}, nil
	}
	return nil, nil
}

func (r boardRules) ValidateUpdate(ctx context.Context, old, board *boardV2) (admission.Warnings, error) {
	if board.Spec.Rows < old.Spec.Rows {
		return nil, errors.New("a board does not shrink")
	}
	return r.ValidateCreate(ctx, board)
}

func (boardRules) ValidateDelete(_ context.Context, board *boardV2) (admission.Warnings, error) {
	if board.Annotations["keep"] != "" {
		return nil, errors.New("the board is to be kept")
	}
	return nil, nil
}

// counting is a controller that writes into the status of a board how many fields the board has.
type counting struct{ client.Client }

func (c counting) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var board boardV2
	if err := c.Get(ctx, request.NamespacedName, &board); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	board.Status.Fields = board.Spec.Rows * board.Spec.Columns
	return ctrl.Result{}, client.IgnoreNotFound(c.Status().Update(ctx, &board))
}

func boardScheme(t *testing.T) *runtime.Scheme {
	made := runtime.NewScheme()
	made.AddKnownTypeWithName(boardsV1.WithKind("Board"), &boardV1{})
	made.AddKnownTypeWithName(boardsV1.WithKind("BoardList"), &boardV1List{})
	made.AddKnownTypeWithName(boardsV2.WithKind("Board"), &boardV2{})
	made.AddKnownTypeWithName(boardsV2.WithKind("BoardList"), &boardV2List{})
	metav1.AddToGroupVersion(made, boardsV1)
	metav1.AddToGroupVersion(made, boardsV2)
	check(t, corev1.AddToScheme(made))
	return made
}

func boardDefinition() *apiextensionsv1.CustomResourceDefinition {
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	number, text := apiextensionsv1.JSONSchemaProps{Type: "integer"}, apiextensionsv1.JSONSchemaProps{Type: "string"}
	version := func(name string, spec apiextensionsv1.JSONSchemaProps) apiextensionsv1.CustomResourceDefinitionVersion {
		whole := object(map[string]apiextensionsv1.JSONSchemaProps{
			"spec": spec, "status": object(map[string]apiextensionsv1.JSONSchemaProps{"fields": number}),
		})
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: name == "v2",
			Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &whole},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "boards." + boardsV1.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: boardsV1.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "boards", Singular: "board", Kind: "Board", ListKind: "BoardList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				version("v1", object(map[string]apiextensionsv1.JSONSchemaProps{"size": text})),
				version("v2", object(map[string]apiextensionsv1.JSONSchemaProps{"rows": number, "columns": number})),
			},
		},
	}
}

// boardWebhooks are the settings of the two webhooks of boards; envtest writes address and certificate into them.
func boardWebhooks() envtest.WebhookInstallOptions {
	settings := func(path string) (admissionregistrationv1.WebhookClientConfig, []admissionregistrationv1.RuleWithOperations) {
		service := &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "webhooks", Path: ptr.To(path)}
		return admissionregistrationv1.WebhookClientConfig{Service: service}, []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE", "DELETE"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{boardsV2.Group}, APIVersions: []string{"v2"}, Resources: []string{"boards"}},
		}}
	}
	none := ptr.To(admissionregistrationv1.SideEffectClassNone)
	mutate, rules := settings("/mutate-boards-example-com-v2-board")
	validate, _ := settings("/validate-boards-example-com-v2-board")
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionregistrationv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "boards"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "default.boards.example.com", ClientConfig: mutate, Rules: rules, SideEffects: none, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
		ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "boards"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "validate.boards.example.com", ClientConfig: validate, Rules: rules, SideEffects: none, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
	}
}

// install stores definitions and webhooks as projects' own tests do, with envtest, and deletes them after the test.
func install(t *testing.T, environment *envtest.Environment) {
	t.Helper()
	environment.Config, environment.UseExistingCluster = config(asJSON), ptr.To(true)
	environment.CRDInstallOptions.CleanUpAfterUse, environment.CRDInstallOptions.MaxTime = true, 30*time.Second
	must(environment.Start())(t)
	t.Cleanup(func() {
		direct := must(client.New(config(asJSON), client.Options{}))(t)
		for _, hook := range environment.WebhookInstallOptions.MutatingWebhooks {
			check(t, direct.Delete(context.Background(), hook))
		}
		for _, hook := range environment.WebhookInstallOptions.ValidatingWebhooks {
			check(t, direct.Delete(context.Background(), hook))
		}
		check(t, environment.Stop())
	})
}

// managed makes a manager that serves webhooks where the environment expects them. The result starts it, and stops it
// with the test.
func managed(t *testing.T, scheme *runtime.Scheme, hooks envtest.WebhookInstallOptions) (ctrl.Manager, func()) {
	t.Helper()
	manager := must(ctrl.NewManager(config(asJSON), ctrl.Options{
		Scheme:     scheme,
		Metrics:    server.Options{BindAddress: "0"},
		Controller: controllerconfig.Controller{SkipNameValidation: ptr.To(true)},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir,
		}),
	}))(t)
	return manager, func() {
		running, stop := context.WithCancel(background(t))
		ended := make(chan error, 1)
		go func() { ended <- manager.Start(running) }()
		t.Cleanup(func() {
			stop()
			check(t, <-ended)
		})
		serving := manager.GetWebhookServer().StartedChecker()
		eventually(t, "webhooks", func() (bool, error) {
			err := serving(nil)
			return err == nil, err
		})
	}
}

// warnings collects the warnings of the server.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

func at(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// TestManagerServesWebhooks: a controller-runtime manager converts a custom resource of two versions, defaults and
// validates it, and writes its status.
func TestManagerServesWebhooks(t *testing.T) {
	ctx, ns, types := background(t), namespace(t), boardScheme(t)
	environment := &envtest.Environment{
		Scheme:                types,
		CRDInstallOptions:     envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{boardDefinition()}},
		WebhookInstallOptions: boardWebhooks(),
	}
	install(t, environment)
	manager, start := managed(t, types, environment.WebhookInstallOptions)
	check(t, ctrl.NewWebhookManagedBy(manager, &boardV2{}).WithDefaulter(boardRules{}).WithValidator(boardRules{}).Complete())
	check(t, ctrl.NewControllerManagedBy(manager).For(&boardV2{}).Complete(counting{manager.GetClient()}))
	start()
	heard, address := &warnings{}, config(asJSON)
	address.WarningHandler = heard
	direct := must(client.New(address, client.Options{Scheme: types}))(t)

	first := &boardV1{ObjectMeta: at(ns, "first")}
	first.Spec.Size = "3x4"
	check(t, direct.Create(ctx, first))
	equal(t, "the first as created", first.Spec.Size, "3x4")
	second := &boardV2{ObjectMeta: at(ns, "second")}
	second.Spec.Rows = 60
	check(t, direct.Create(ctx, second))
	equal(t, "defaulted columns", second.Spec.Columns, 60)
	equal(t, "warnings", heard.texts, []string{"a board of more than 50 rows is slow"})

	var boards boardV1List
	check(t, direct.List(ctx, &boards, client.InNamespace(ns)))
	var sizes []string
	for _, board := range boards.Items {
		sizes = append(sizes, board.Name+" "+board.Spec.Size)
	}
	equal(t, "both in v1", sizes, []string{"first 3x4", "second 60x60"})
	var hub boardV2
	eventually(t, "a status", func() (bool, error) {
		err := direct.Get(ctx, client.ObjectKeyFromObject(first), &hub)
		return hub.Status.Fields == 12, err
	})
	equal(t, "the first in v2", []int{hub.Spec.Rows, hub.Spec.Columns}, []int{3, 4})

	check(t, direct.Get(ctx, client.ObjectKeyFromObject(first), first))
	first.Spec.Size = "5x4"
	check(t, direct.Update(ctx, first))
	check(t, direct.Patch(ctx, first, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"size":"6x4"}}`))))
	equal(t, "patched in v1", first.Spec.Size, "6x4")
	applied := &boardV2{TypeMeta: metav1.TypeMeta{APIVersion: boardsV2.String(), Kind: "Board"}, ObjectMeta: at(ns, "first")}
	applied.Spec.Rows = 7
	check(t, direct.Patch(ctx, applied, client.Apply, client.FieldOwner("apply"), client.ForceOwnership))
	equal(t, "applied in v2", []int{applied.Spec.Rows, applied.Spec.Columns}, []int{7, 4})

	first.Spec.Size = "200x1"
	err := direct.Update(ctx, first)
	if !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	check(t, direct.Get(ctx, client.ObjectKeyFromObject(first), first))
	refused := func(what, size, why string) {
		t.Helper()
		changed := first.DeepCopyObject().(*boardV1)
		changed.Spec.Size = size
		err := direct.Update(ctx, changed)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("too large", "200x1", `Board.boards.example.com "first" is invalid: spec.rows: Invalid value: 200: must be at most 100`)
	refused("smaller", "1x1", `admission webhook "validate.boards.example.com" denied the request: a board does not shrink`)
	refused("not a size", "large", `conversion webhook for boards.example.com/v1, Kind=Board failed: size "large"`)

	second.Annotations = map[string]string{"keep": "yes"}
	check(t, direct.Patch(ctx, second, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"keep":"yes"}}}`))))
	if err := direct.Delete(ctx, second); !apierrors.IsForbidden(err) {
		t.Errorf("deletion of a board to be kept: %v", err)
	}
	check(t, direct.Delete(ctx, first))
}

// moduleFolder is where `go` keeps a module's files. The test is skipped where there is no `go`.
func moduleFolder(t *testing.T, module string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	return strings.TrimSpace(string(must(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output())(t)))
}

// TestClusterAPI: the definitions of cluster-api are installed from its module, and its own webhooks default, validate
// and convert its objects.
func TestClusterAPI(t *testing.T) {
	ctx, ns, types := background(t), namespace(t), runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, clusterv1beta1.AddToScheme, corev1.AddToScheme, autoscalingv1.AddToScheme,
	} {
		check(t, add(types))
	}
	settings := filepath.Join(moduleFolder(t, "sigs.k8s.io/cluster-api"), "core", "config")
	environment := &envtest.Environment{
		Scheme:            types,
		CRDInstallOptions: envtest.CRDInstallOptions{Paths: []string{filepath.Join(settings, "crd", "bases")}},
		WebhookInstallOptions: envtest.WebhookInstallOptions{
			Paths:                   []string{filepath.Join(settings, "webhook", "manifests.yaml")},
			IgnoreSchemeConvertible: true, // its types are converted by functions, which the scheme does not know
		},
	}
	install(t, environment)
	manager, start := managed(t, types, environment.WebhookInstallOptions)
	check(t, (&clusteradmission.Machine{}).SetupWebhookWithManager(manager))
	check(t, (&clusteradmission.MachineSet{}).SetupWebhookWithManager(manager))
	check(t, (&clusteradmission.MachineDeployment{}).SetupWebhookWithManager(manager))
	clusterconversion.SetAPIVersionGetter(func(_ context.Context, kind schema.GroupKind) (string, error) {
		return kind.Group + "/v1beta1", nil
	})
	start()
	direct := must(client.New(config(asJSON), client.Options{Scheme: types}))(t)

	template := clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
		ClusterName: "c", Version: "1.32.0", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "Thing", Name: "t",
		},
	}}
	workers := &clusterv1.MachineDeployment{
		ObjectMeta: at(ns, "workers"),
		Spec:       clusterv1.MachineDeploymentSpec{ClusterName: "c", Template: template},
	}
	check(t, direct.Create(ctx, workers))
	dump(t, workers.Spec)
	equal(t, "replicas, from the webhook", ptr.Deref(workers.Spec.Replicas, 0), 1)
	equal(t, "a version with its v", workers.Spec.Template.Spec.Version, "v1.32.0")
	equal(t, "the selector, from the webhook", workers.Spec.Selector.MatchLabels["cluster.x-k8s.io/deployment-name"], "workers")

	refused := func(what string, err error, why string) {
		t.Helper()
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	moved := workers.DeepCopy()
	moved.Spec.ClusterName = "d"
	refused("another cluster", direct.Update(ctx, moved), "field is immutable")
	unnamed := workers.DeepCopy()
	unnamed.ResourceVersion, unnamed.Name, unnamed.Spec.ClusterName = "", "unnamed", ""
	refused("no cluster, which the definition refuses", direct.Create(ctx, unnamed), "spec.clusterName: Required value")

	var older clusterv1beta1.MachineDeployment
	check(t, direct.Get(ctx, client.ObjectKeyFromObject(workers), &older))
	equal(t, "what it asks for, in v1beta1", older.Spec.Template.Spec.InfrastructureRef, corev1.ObjectReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Thing", Name: "t", Namespace: ns,
	})
	older.Spec.MinReadySeconds = ptr.To(int32(7))
	check(t, direct.Update(ctx, &older))
	older.Spec.ClusterName = ""
	refused("no cluster, in v1beta1", direct.Update(ctx, &older), "spec.clusterName: Invalid value")
	check(t, direct.Get(ctx, client.ObjectKeyFromObject(workers), workers))
	equal(t, "seconds, written in v1beta1", ptr.Deref(workers.Spec.Template.Spec.MinReadySeconds, 0), 7)

	workers.Status.Replicas, workers.Status.Phase = ptr.To(int32(2)), "Running"
	check(t, direct.Status().Update(ctx, workers))
	var scaled clusterv1.MachineDeployment
	scale := &autoscalingv1.Scale{ObjectMeta: at(ns, "workers"), Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	check(t, direct.SubResource("scale").Update(ctx, workers, client.WithSubResourceBody(scale)))
	equal(t, "replicas of the scale", []int32{scale.Spec.Replicas, scale.Status.Replicas}, []int32{3, 2})
	check(t, direct.Get(ctx, client.ObjectKeyFromObject(workers), &scaled))
	equal(t, "scaled", ptr.Deref(scaled.Spec.Replicas, 0), 3)

	columns := func(version string) []string {
		t.Helper()
		var table metav1.Table
		raw := must(typed(t, asJSON).CoreV1().RESTClient().Get().SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").
			AbsPath("/apis/cluster.x-k8s.io", version, "namespaces", ns, "machinedeployments").DoRaw(ctx))(t)
		check(t, json.Unmarshal(raw, &table))
		var cells []string
		for i, column := range table.ColumnDefinitions {
			if column.Name != "Age" {
				cells = append(cells, fmt.Sprintf("%s: %v", column.Name, table.Rows[0].Cells[i]))
			}
		}
		return cells
	}
	equal(t, "columns", columns("v1beta2"), []string{
		"Name: workers", "Cluster: c", "Available: <nil>", "Desired: 3", "Current: 2", "Ready: <nil>", "Available: <nil>",
		"Up-to-date: <nil>", "Paused: <nil>", "Phase: Running", "Version: v1.32.0",
	})
	equal(t, "columns of v1beta1", columns("v1beta1"), []string{
		"Name: workers", "Cluster: c", "Desired: 3", "Replicas: 2", "Ready: 0", "Updated: 0", "Unavailable: 0",
		"Phase: Running", "Version: v1.32.0",
	})
}
