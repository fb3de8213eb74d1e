//go:build race

package broker

// Race says that the test binary was built with the race detector; the broker is then built with it too.
const Race = true
