//go:build !without_v2beta1

package main

import apidiscovery "k8s.io/api/apidiscovery/v2beta1"

// discoveryV2beta1 is a type of releases before 1.38.
var discoveryV2beta1 any = apidiscovery.APIGroupDiscoveryList{}
