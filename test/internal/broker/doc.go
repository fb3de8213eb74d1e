// Package broker runs the built queencell binary for tests and benchmarks and speaks to it over real sockets.
//
// It knows the product only by its command line, its environment, its signals and its HTTP surface: nothing of the
// module is imported, so that a test written with it can fail only for what a user could see. A Process is one running
// broker; a Client is a set of requests against one; Main builds the binary once for a test package.
package broker
