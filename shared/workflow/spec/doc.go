// Package spec holds the nouns of what authors write: a definition, its tree of
// steps and its configuration; and the program that a run makes of it, in which
// embedded definitions stand where they are referred to.
package spec
