// Package discovery finds the entities that a run is about: those its starter
// names, then, in order, those its definitions acquire: by ids, groups, a query or
// an expression, by expanding entities that have been found already, or by asking
// a block.
package discovery
