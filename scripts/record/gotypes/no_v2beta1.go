//go:build without_v2beta1

package main

import apidiscovery "k8s.io/api/apidiscovery/v2"

// discoveryV2beta1 stands for a type that the release does not have.
var discoveryV2beta1 any = apidiscovery.APIGroupDiscoveryList{}
