//go:build client032

package clients

import (
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// kinds are the kinds of `resource.k8s.io/v1alpha3` that 1.31 serves, and of which newer clients do not know: `TestKinds`
// takes these objects when it is built with the client of 1.32.
//
//	go test -modfile=go032.mod setup_test.go crud_test.go v1alpha3_test.go
func kinds(c kubernetes.Interface, ns string) map[string]story {
	spec := resourcev1alpha3.ResourceClaimSpec{Devices: resourcev1alpha3.DeviceClaim{
		// 1.31 sends administrative access that is not asked for as well, but in protobuf only.
		Requests: []resourcev1alpha3.DeviceRequest{{Name: "gpu", DeviceClassName: "gpu.example.com", AdminAccess: ptr.To(true)}},
	}}
	return map[string]story{
		"resourceclaims.v1alpha3": of(&resourcev1alpha3.ResourceClaim{Spec: spec}, c.ResourceV1alpha3().ResourceClaims(ns)),
		"resourceclaimtemplates.v1alpha3": of(&resourcev1alpha3.ResourceClaimTemplate{Spec: resourcev1alpha3.ResourceClaimTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: spec,
		}}, c.ResourceV1alpha3().ResourceClaimTemplates(ns)),
		"deviceclasses.v1alpha3": of(&resourcev1alpha3.DeviceClass{Spec: resourcev1alpha3.DeviceClassSpec{
			Selectors: []resourcev1alpha3.DeviceSelector{{CEL: &resourcev1alpha3.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}},
		}}, c.ResourceV1alpha3().DeviceClasses()),
		"resourceslices.v1alpha3": of(&resourcev1alpha3.ResourceSlice{Spec: resourcev1alpha3.ResourceSliceSpec{
			Driver: "gpu.example.com", AllNodes: true, Pool: resourcev1alpha3.ResourcePool{Name: "one", ResourceSliceCount: 1},
			Devices: []resourcev1alpha3.Device{{Name: "gpu-0", Basic: &resourcev1alpha3.BasicDevice{
				Capacity: map[resourcev1alpha3.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Gi")},
			}}},
		}}, c.ResourceV1alpha3().ResourceSlices()),
	}
}
