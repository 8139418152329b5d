// Command gopolicy prints, as JSON, the bootstrap policy of RBAC that kube-apiserver writes when it starts, for
// many settings of the feature gates that it depends on: the defaults, all on, all off, each one changed, and
// random ones. Where a gate is off that another needs, that one is off as well.
//
//	gopolicy GATE...    the gates that bootstrappolicy asks for; those that are unknown or locked stay as they are
//
// The answer is a list of {"gates": {name: on}, "objects": [object, ...]}, in the order in which they are written.
package main

import (
	"encoding/json"
	"math/rand"
	"os"
	"sort"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

const random = 400

type setting struct {
	Gates   map[string]bool `json:"gates"`
	Objects []any           `json:"objects"`
}

func policy(gates map[string]bool) setting {
	objects := []any{}
	for _, role := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		role.Kind, role.APIVersion = "ClusterRole", rbacv1.SchemeGroupVersion.String()
		objects = append(objects, role)
	}
	for _, binding := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		binding.Kind, binding.APIVersion = "ClusterRoleBinding", rbacv1.SchemeGroupVersion.String()
		objects = append(objects, binding)
	}
	roles, bindings := bootstrappolicy.NamespaceRoles(), bootstrappolicy.NamespaceRoleBindings()
	for _, namespace := range sorted(roles) {
		for _, role := range roles[namespace] {
			role.Kind, role.APIVersion = "Role", rbacv1.SchemeGroupVersion.String()
			objects = append(objects, role)
		}
	}
	for _, namespace := range sorted(bindings) {
		for _, binding := range bindings[namespace] {
			binding.Kind, binding.APIVersion = "RoleBinding", rbacv1.SchemeGroupVersion.String()
			objects = append(objects, binding)
		}
	}
	return setting{gates, objects}
}

func sorted[V any](table map[string]V) []string {
	names := []string{}
	for name := range table {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// dependencies returns the gates that others need, {} where the release does not tell.
func dependencies() map[featuregate.Feature][]featuregate.Feature {
	type dependent interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	}
	if gate, ok := utilfeature.DefaultFeatureGate.(dependent); ok {
		return gate.Dependencies()
	}
	return nil
}

// completed returns a setting with every other gate that can be changed: off where it needs a gate that is off. Gates of
// the setting for which this holds are turned off in place.
func completed(gates map[string]bool, all map[featuregate.Feature]featuregate.FeatureSpec) map[string]bool {
	needed, full := dependencies(), map[string]bool{}
	for gate, spec := range all {
		if on, given := gates[string(gate)]; given {
			full[string(gate)] = on
		} else if !spec.LockToDefault && !strings.HasPrefix(string(gate), "All") {
			full[string(gate)] = spec.Default
		}
	}
	for changed := true; changed; {
		changed = false
		for gate, others := range needed {
			for _, other := range others {
				if on, known := full[string(other)]; known && !on && full[string(gate)] {
					full[string(gate)], changed = false, true
					if _, given := gates[string(gate)]; given {
						gates[string(gate)] = false
					}
				}
			}
		}
	}
	return full
}

func main() {
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	names, settings := []string{}, []map[string]bool{}
	for _, name := range os.Args[1:] {
		if spec, known := all[featuregate.Feature(name)]; known && !spec.LockToDefault {
			names = append(names, name)
		}
	}
	with := func(on func(name string) bool) {
		gates := map[string]bool{}
		for _, name := range names {
			gates[name] = on(name)
		}
		settings = append(settings, gates)
	}
	with(func(name string) bool { return all[featuregate.Feature(name)].Default })
	for _, base := range []bool{true, false} {
		with(func(string) bool { return base })
		for _, changed := range names {
			with(func(name string) bool { return base != (name == changed) })
		}
	}
	for range random {
		with(func(string) bool { return rand.Intn(2) == 0 })
	}
	policies := []setting{}
	for _, gates := range settings {
		if utilfeature.DefaultMutableFeatureGate.SetFromMap(completed(gates, all)) == nil {
			policies = append(policies, policy(gates))
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(policies); err != nil {
		panic(err)
	}
}
