// Package child runs programs that must not outlive this process, however it
// ends: on Linux the kernel kills them with it, elsewhere they are only stopped
// by an orderly end.
package process
