// Package kept makes what an engine keeps, tables and logs, and decides what becomes of
// them when the stack goes.
package kept
