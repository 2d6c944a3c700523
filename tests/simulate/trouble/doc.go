// Package trouble decides what goes wrong in a play, and how long everything takes.
//
// mood.go draws how bad a play is; luck.go decides about each call: what fault
// strikes it and how long whoever makes it stands still before. Every fault has a
// number, so that a play can be repeated with some of them left out.
package trouble
