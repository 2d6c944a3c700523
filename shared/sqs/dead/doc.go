// Package dead reads a queue's dead letters and puts them back. It is apart from
// the board because only the HTTP interface has the rights for it.
package dead
