// Package httpblock runs jobs of blocks that are served over HTTP: any language
// can serve one. caller.go posts a job and reads the answer, wire.go says what
// both look like, allow.go decides which hosts may be called at all.
package httpblock
