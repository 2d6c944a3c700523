// Package journal keeps records in one append-only file, one JSON value a line,
// so that a program that dies at any instant finds them again.
//
// A record is with the operating system when [Log.Append] returns, so it
// survives kill -9 of the process; it is not forced to the disk, so it may not
// survive the loss of power. A last line cut short by such a death was never
// acknowledged and is dropped at the next start; damage anywhere else stops the
// start, because records after it may have been promised to somebody. When most
// records are out of date the owner writes the live ones anew with
// [Log.Compact], which replaces the file in one step.
//
// log.go is all of it. The package does not know what the records mean.
package journal
