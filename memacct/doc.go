// Package memacct counts memory against limits, for accounts that contain each
// other: a host and its namespaces, a namespace and its peers.
package memacct
