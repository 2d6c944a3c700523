// Package definitions holds small workflow definitions that between them use
// every field of the format; docs/definitions.md explains them by these. The
// tests read and compile each, and hold page, examples and format together.
package definitions
