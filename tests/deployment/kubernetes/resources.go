// Package kubernetes names the types that custom resource definitions are generated from.
package kubernetes

import _ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
