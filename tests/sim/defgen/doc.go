// Package plot draws random definitions from the whole grammar that the engine
// plays, and says of each what an oracle has to know.
//
// plot.go has the definition as a tree, from which steps can be taken away so that
// a failure is told shortly, and its text; draw.go draws one.
package defgen
