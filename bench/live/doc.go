// Package live asks the kernel of this machine what it does with fragments.
//
// A Host is a network namespace without a name, with two TUN devices in it and
// sockets that listen: packets written to a device arrive at the kernel's IP
// input, which has reassembled, delivered and answered by the time the write
// returns. Host.Ask runs the steps of a case (package vectors) and returns what
// each caused, in the form that recorded vectors have, so package judge compares
// a cache with either. Random makes the cases.
//
// It needs Linux, /dev/net/tun and the right to make namespaces (CAP_SYS_ADMIN
// and CAP_NET_ADMIN). Nothing it does is visible outside of the namespace, and
// the namespace ends with the process at the latest.
package live
