// Package replica copies values as a store does that writes them down and reads
// them again: what comes out shares no memory with what went in.
package replica
