package clients

import (
	"bytes"
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// notebooks is a definition that envtest installs.
func notebooks() *apiextensionsv1.CustomResourceDefinition {
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "notebooks.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "notebooks", Kind: "Notebook"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
			}},
		},
	}
}

// TestEnvtest: envtest starts the programs that $KUBEBUILDER_ASSETS names, be they the real ones or understudy's.
func TestEnvtest(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("needs KUBEBUILDER_ASSETS")
	}
	environment := &envtest.Environment{
		CRDs: []*apiextensionsv1.CustomResourceDefinition{notebooks()},
	}
	environment.ControlPlane.GetAPIServer().Configure().Append("feature-gates", "AllBeta=true")
	config := must(environment.Start())(t)
	t.Cleanup(func() { check(t, environment.Stop()) })
	ctx := background(t)
	admin := must(client.New(config, client.Options{Scheme: scheme.Scheme}))(t)

	check(t, admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
	notebook := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Notebook",
		"metadata": map[string]any{"name": "n", "namespace": "a"},
	}}
	check(t, admin.Create(ctx, notebook))

	user := must(environment.AddUser(envtest.User{Name: "reader", Groups: []string{"readers"}}, nil))(t)
	seen := func(config *rest.Config) error {
		reader := must(client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: admin.RESTMapper()}))(t)
		return reader.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("a"))
	}
	if err := seen(user.Config()); !apierrors.IsForbidden(err) {
		t.Errorf("a user without a role: %v", err)
	}
	check(t, admin.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "readers", Namespace: "a"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}))
	check(t, admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers", Namespace: "a"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "readers"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}},
	}))
	eventually(t, "the role is in force", func() (bool, error) { err := seen(user.Config()); return err == nil, err })
	out, _, err := must(user.Kubectl())(t).Run("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	check(t, err)
	who := new(bytes.Buffer)
	_, err = who.ReadFrom(out)
	check(t, err)
	equal(t, "who kubectl is", who.String(), "reader")

	server := environment.ControlPlane.GetAPIServer()
	check(t, server.Stop())
	check(t, server.Start()) // with new certificates
	user = must(environment.AddUser(envtest.User{Name: "other", Groups: []string{"system:masters"}}, nil))(t)
	admin = must(client.New(user.Config(), client.Options{Scheme: scheme.Scheme}))(t)
	check(t, admin.Get(ctx, client.ObjectKeyFromObject(notebook), notebook))
}

// TestEnvtestDeletesNamespaces: understudy's programs empty and remove namespaces; the real ones would need more.
func TestEnvtestDeletesNamespaces(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("needs KUBEBUILDER_ASSETS")
	}
	environment := &envtest.Environment{}
	config := must(environment.Start())(t)
	t.Cleanup(func() { check(t, environment.Stop()) })
	k8sClient := must(client.New(config, client.Options{Scheme: scheme.Scheme}))(t)
	ctx, namespace := background(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	check(t, k8sClient.Create(ctx, namespace))
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "note", Namespace: namespace.Name}}
	check(t, k8sClient.Create(ctx, note))
	check(t, k8sClient.Delete(ctx, namespace))
	eventually(t, "the namespace is gone", func() (bool, error) {
		err := k8sClient.Get(context.Background(), client.ObjectKeyFromObject(namespace), namespace)
		return apierrors.IsNotFound(err), err
	})
}
