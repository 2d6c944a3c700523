// Package page is the verb that shows the page of a service which lets nobody in
// without a signature or a token: browsers send neither, so a small server on this
// machine asks in their place, with the rights of whoever has started it. It reads
// and never writes, and answers to nothing but a browser on the same machine.
package page
