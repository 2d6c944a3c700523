// Package lines brings the output of many processes onto one writer, a whole line
// at a time, each with the name of the one it comes from.
package lines
