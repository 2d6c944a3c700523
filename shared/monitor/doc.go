// Package monitor is the web page of the service: plain files that are embedded
// in the binary and read everything they show through the HTTP interface, like
// any other client. The page runs under a strict content policy: no inline
// script or style, nothing from elsewhere, and every text it shows is set as
// text, never as markup.
//
// It is a package of its own because the embedded files and their content policy are
// one thing, which nothing else of the service has to know.
package monitor
