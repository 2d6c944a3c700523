// Package inventory is the law of what an entity may be: entity.go of its parts,
// line.go of the line of JSON by which it is imported, and lines.go of an import. The
// service holds imports to it, and the command what it is about to send.
package inventory
