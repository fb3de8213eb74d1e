package main

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/queencell/queencell/cell"
)

// drawNode makes a node id from the host's name and four random hex digits: two brokers on one host differ.
func drawNode() string {
	var random [2]byte
	_, _ = rand.Read(random[:]) // never fails
	return nodeFrom(hostname(), hex.EncodeToString(random[:]))
}

// nodeFrom joins a host's name and a suffix to a valid node id. What a node id can't hold becomes '-'.
func nodeFrom(host, suffix string) string {
	host = strings.Map(func(r rune) rune {
		if cell.ValidNode(string(r)) != nil {
			return '-'
		}
		return r
	}, host)
	if longest := cell.MaxNodeID - len(suffix) - 1; len(host) > longest {
		host = host[:longest]
	}
	return host + "-" + suffix
}
