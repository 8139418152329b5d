package clients

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

var (
	moment = metav1.NewTime(time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC))
	micro  = metav1.NewMicroTime(time.Date(2024, 2, 3, 4, 5, 6, 789000000, time.UTC))
	app    = map[string]string{"app": "web"}
	ofApp  = &metav1.LabelSelector{MatchLabels: app}
	plainc = []corev1.Container{{Name: "main", Image: "registry.example.com/main:1"}}
)

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{Containers: plainc}}
}

func richPod() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"gpu": "yes"},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
			}}},
			{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
		RestartPolicy: "Never",
		InitContainers: []corev1.Container{{
			Name: "side", Image: "registry.example.com/side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
		}},
		Containers: []corev1.Container{{
			Name: "main", Image: "registry.example.com/main:1", Command: []string{"run", "--now"},
			Env: []corev1.EnvVar{
				{Name: "A", Value: "1"},
				{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			},
			Ports: []corev1.ContainerPort{{ContainerPort: 80, Name: "http"}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")},
			}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config", ReadOnly: true}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("0.1"), "memory": resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("1.5Gi")},
				Claims:   []corev1.ResourceClaim{{Name: "gpu", Request: "one"}},
			},
		}},
		Tolerations: []corev1.Toleration{{Key: "gpu", Operator: "Exists", Effect: "NoSchedule"}},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: "kubernetes.io/hostname", LabelSelector: ofApp},
			},
		}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpus")}},
	}}
}

func claimSpec() resourcev1beta1.ResourceClaimSpec {
	return resourcev1beta1.ResourceClaimSpec{Devices: resourcev1beta1.DeviceClaim{
		Requests: []resourcev1beta1.DeviceRequest{{
			Name: "gpu", DeviceClassName: "gpu.example.com", AllocationMode: "ExactCount", Count: 2,
			Selectors: []resourcev1beta1.DeviceSelector{{CEL: &resourcev1beta1.CELDeviceSelector{
				Expression: `device.attributes["gpu.example.com"].model == "large"`,
			}}},
		}},
		Constraints: []resourcev1beta1.DeviceConstraint{{
			MatchAttribute: ptr.To(resourcev1beta1.FullyQualifiedName("gpu.example.com/numa")),
		}},
		Config: []resourcev1beta1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1beta1.DeviceConfiguration{
			Opaque: &resourcev1beta1.OpaqueDeviceConfiguration{
				Driver: "gpu.example.com", Parameters: runtime.RawExtension{Raw: []byte(`{"z":1.50,"a":[1e3,null]}`)},
			},
		}}},
	}}
}

func devices(names ...string) (out []resourcev1beta1.Device) {
	for i, name := range names {
		out = append(out, resourcev1beta1.Device{Name: name, Basic: &resourcev1beta1.BasicDevice{
			Attributes: map[resourcev1beta1.QualifiedName]resourcev1beta1.DeviceAttribute{
				"model":   {StringValue: ptr.To("large")},
				"index":   {IntValue: ptr.To(int64(i))},
				"ecc":     {BoolValue: ptr.To(false)},
				"driver":  {VersionValue: ptr.To("1.2.3")},
				"a.org/x": {StringValue: ptr.To("")},
			},
			Capacity: map[resourcev1beta1.QualifiedName]resourcev1beta1.DeviceCapacity{
				"memory": {Value: resource.MustParse("80Gi")},
			},
		}})
	}
	return out
}

// kinds are objects as people write them, each with its typed client.
func kinds(c kubernetes.Interface, ns string) map[string]story {
	gib := resource.MustParse("1Gi")
	once := []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}
	disk := corev1.PersistentVolumeClaimSpec{
		AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": gib}},
	}
	job := batchv1.JobSpec{Parallelism: ptr.To(int32(2)), Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{RestartPolicy: "OnFailure", Containers: plainc},
	}}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "reader", Namespace: "default"}}
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web", Namespace: ns}
	hook := admissionv1.WebhookClientConfig{URL: ptr.To("https://hooks.example.com/none")}
	none := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{"CREATE"},
		Rule:       admissionv1.Rule{APIGroups: []string{"none.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"none"}},
	}}
	return map[string]story{
		"pods":     of(richPod(), c.CoreV1().Pods(ns)),
		"services": of(&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "None", Selector: app, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}}}, c.CoreV1().Services(ns)),
		"configmaps": of(&corev1.ConfigMap{
			Data: map[string]string{"a": "1", "empty": ""}, BinaryData: map[string][]byte{"raw": {0, 255}},
		}, c.CoreV1().ConfigMaps(ns)),
		"secrets":         of(&corev1.Secret{StringData: map[string]string{"a": "1"}, Data: map[string][]byte{"b": {0, 255}}}, c.CoreV1().Secrets(ns)),
		"serviceaccounts": of(&corev1.ServiceAccount{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}}, c.CoreV1().ServiceAccounts(ns)),
		"endpoints": of(&corev1.Endpoints{Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.9.8.7"}}, Ports: []corev1.EndpointPort{{Port: 80}},
		}}}, c.CoreV1().Endpoints(ns)),
		"limitranges": of(&corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: "Container", Max: corev1.ResourceList{"cpu": resource.MustParse("2")}},
		}}}, c.CoreV1().LimitRanges(ns)),
		"resourcequotas": of(&corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"count/widgets.example.com": resource.MustParse("3")},
		}}, c.CoreV1().ResourceQuotas(ns)),
		"podtemplates":           of(&corev1.PodTemplate{Template: podTemplate()}, c.CoreV1().PodTemplates(ns)),
		"replicationcontrollers": of(&corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Selector: app, Template: ptr.To(podTemplate())}}, c.CoreV1().ReplicationControllers(ns)),
		"persistentvolumeclaims": of(&corev1.PersistentVolumeClaim{Spec: disk}, c.CoreV1().PersistentVolumeClaims(ns)),
		"persistentvolumes": of(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{"storage": gib}, AccessModes: once,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		}}, c.CoreV1().PersistentVolumes()),
		"nodes": of(&corev1.Node{
			Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Effect: "NoSchedule"}}},
			Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": gib}},
		}, c.CoreV1().Nodes()),
		"events": of(&corev1.Event{
			InvolvedObject: about, Reason: "Tested", Message: "as a test", Type: "Normal", Count: 1,
			FirstTimestamp: moment, LastTimestamp: moment, Source: corev1.EventSource{Component: "test"},
		}, c.CoreV1().Events(ns)),
		"events.events.k8s.io": of(&eventsv1.Event{
			EventTime: micro, ReportingController: "example.com/test", ReportingInstance: "one", Action: "Testing",
			Reason: "Tested", Regarding: about, Note: "as a test", Type: "Normal",
		}, c.EventsV1().Events(ns)),

		"deployments": of(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: ofApp, Template: podTemplate()}}, c.AppsV1().Deployments(ns)),
		"replicasets": of(&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: ofApp, Template: podTemplate()}}, c.AppsV1().ReplicaSets(ns)),
		"daemonsets":  of(&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: ofApp, Template: podTemplate()}}, c.AppsV1().DaemonSets(ns)),
		"statefulsets": of(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
			Selector: ofApp, Template: podTemplate(), ServiceName: "web",
		}}, c.AppsV1().StatefulSets(ns)),
		"controllerrevisions": of(&appsv1.ControllerRevision{Revision: 3, Data: runtime.RawExtension{Raw: []byte(`{"b":1,"a":{"kind":"x"}}`)}}, c.AppsV1().ControllerRevisions(ns)),
		"jobs":                of(&batchv1.Job{Spec: *job.DeepCopy()}, c.BatchV1().Jobs(ns)),
		"cronjobs": of(&batchv1.CronJob{Spec: batchv1.CronJobSpec{
			Schedule: "*/5 * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: job},
		}}, c.BatchV1().CronJobs(ns)),
		"horizontalpodautoscalers.v1": of(&autoscalingv1.HorizontalPodAutoscaler{Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", APIVersion: "apps/v1"},
			MaxReplicas:    5, TargetCPUUtilizationPercentage: ptr.To(int32(70)),
		}}, c.AutoscalingV1().HorizontalPodAutoscalers(ns)),
		"horizontalpodautoscalers.v2": of(&autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web", APIVersion: "apps/v1"},
			MaxReplicas:    5, Metrics: []autoscalingv2.MetricSpec{{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{
				Name: "memory", Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: ptr.To(resource.MustParse("1.5Gi"))},
			}}},
		}}, c.AutoscalingV2().HorizontalPodAutoscalers(ns)),
		"poddisruptionbudgets": of(&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromString("50%")), Selector: ofApp,
		}}, c.PolicyV1().PodDisruptionBudgets(ns)),

		"roles":               of(&rbacv1.Role{Rules: rules}, c.RbacV1().Roles(ns)),
		"clusterroles":        of(&rbacv1.ClusterRole{Rules: rules}, c.RbacV1().ClusterRoles()),
		"rolebindings":        of(&rbacv1.RoleBinding{Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "reader"}}, c.RbacV1().RoleBindings(ns)),
		"clusterrolebindings": of(&rbacv1.ClusterRoleBinding{Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"}}, c.RbacV1().ClusterRoleBindings()),

		"ingresses": of(&networkingv1.Ingress{Spec: networkingv1.IngressSpec{DefaultBackend: &backend, Rules: []networkingv1.IngressRule{{
			Host: "web.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: backend}},
			}},
		}}}}, c.NetworkingV1().Ingresses(ns)),
		"ingressclasses": of(&networkingv1.IngressClass{Spec: networkingv1.IngressClassSpec{Controller: "example.com/ingress"}}, c.NetworkingV1().IngressClasses()),
		"networkpolicies": of(&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *ofApp, Ingress: []networkingv1.NetworkPolicyIngressRule{{
				Ports: []networkingv1.NetworkPolicyPort{{Port: ptr.To(intstr.FromInt32(80))}},
				From:  []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}},
			}},
		}}, c.NetworkingV1().NetworkPolicies(ns)),
		"endpointslices": of(&discoveryv1.EndpointSlice{
			AddressType: "IPv4", Ports: []discoveryv1.EndpointPort{{Port: ptr.To(int32(80))}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.8.7"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		}, c.DiscoveryV1().EndpointSlices(ns)),
		"leases": of(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("me"), LeaseDurationSeconds: ptr.To(int32(15)), AcquireTime: &micro,
		}}, c.CoordinationV1().Leases(ns)),

		"storageclasses": of(&storagev1.StorageClass{
			Provisioner: "disks.example.com", Parameters: map[string]string{"type": "fast"}, MountOptions: []string{"ro"},
		}, c.StorageV1().StorageClasses()),
		"csidrivers": of(&storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{PodInfoOnMount: ptr.To(true)}}, c.StorageV1().CSIDrivers()),
		"csinodes": of(&storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "disks.example.com", NodeID: "1", TopologyKeys: []string{"zone"}},
		}}}, c.StorageV1().CSINodes()),
		"csistoragecapacities": of(&storagev1.CSIStorageCapacity{StorageClassName: "fast", Capacity: &gib, NodeTopology: ofApp}, c.StorageV1().CSIStorageCapacities(ns)),
		"volumeattachments": of(&storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "disks.example.com", NodeName: "one", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("disk")},
		}}, c.StorageV1().VolumeAttachments()),
		"priorityclasses": of(&schedulingv1.PriorityClass{Value: 7, Description: "low"}, c.SchedulingV1().PriorityClasses()),
		"runtimeclasses": of(&nodev1.RuntimeClass{
			Handler: "sandbox", Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{"memory": gib}},
		}, c.NodeV1().RuntimeClasses()),
		"validatingwebhookconfigurations": of(&admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "none.example.com", ClientConfig: hook, Rules: none, SideEffects: ptr.To(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}}}, c.AdmissionregistrationV1().ValidatingWebhookConfigurations()),
		"mutatingwebhookconfigurations": of(&admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{{
			Name: "none.example.com", ClientConfig: hook, Rules: none, SideEffects: ptr.To(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}}}, c.AdmissionregistrationV1().MutatingWebhookConfigurations()),
		"prioritylevelconfigurations": of(&flowcontrolv1.PriorityLevelConfiguration{Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{Type: "Reject"}},
		}}, c.FlowcontrolV1().PriorityLevelConfigurations()),

		"validatingadmissionpolicies": of(&admissionv1.ValidatingAdmissionPolicy{Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: none[0]}}},
			Validations:      []admissionv1.Validation{{Expression: "object.metadata.name != 'x'", Message: "no x"}},
		}}, c.AdmissionregistrationV1().ValidatingAdmissionPolicies()),
		"validatingadmissionpolicybindings": of(&admissionv1.ValidatingAdmissionPolicyBinding{Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "none", ValidationActions: []admissionv1.ValidationAction{"Deny"},
		}}, c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()),

		"resourceclaims": of(&resourcev1beta1.ResourceClaim{Spec: claimSpec()}, c.ResourceV1beta1().ResourceClaims(ns)),
		"resourceclaimtemplates": of(&resourcev1beta1.ResourceClaimTemplate{Spec: resourcev1beta1.ResourceClaimTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: claimSpec(),
		}}, c.ResourceV1beta1().ResourceClaimTemplates(ns)),
		"deviceclasses": of(&resourcev1beta1.DeviceClass{Spec: resourcev1beta1.DeviceClassSpec{
			Selectors: []resourcev1beta1.DeviceSelector{{CEL: &resourcev1beta1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}},
		}}, c.ResourceV1beta1().DeviceClasses()),
		"resourceslices": of(&resourcev1beta1.ResourceSlice{Spec: resourcev1beta1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: "one", Pool: resourcev1beta1.ResourcePool{Name: "one", ResourceSliceCount: 1},
			Devices: devices("gpu-0", "gpu-1"),
		}}, c.ResourceV1beta1().ResourceSlices()),
	}
}
