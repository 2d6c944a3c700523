// Package core makes the engine out of the parts that package boot has opened:
// it hands the ports one view per piece of work, and time and chance their
// sources.
package enginehost
