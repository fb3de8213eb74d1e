package main

import (
	"runtime"
	"runtime/debug"
)

// version is that of the product; the build adds the revision.
const version = "0.1.0"

// versionText is the version, and where the build knows it the revision, for a person.
func versionText() string {
	text := version
	if info, ok := debug.ReadBuildInfo(); ok {
		var revision, modified string
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = s.Value
			case "vcs.modified":
				if s.Value == "true" {
					modified = "+modified"
				}
			}
		}
		if len(revision) > 12 {
			revision = revision[:12]
		}
		if revision != "" {
			text += " (" + revision + modified + ")"
		}
	}
	return text + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
