// Package deadletter shows what queues have given up on, and puts it back.
//
// service.go answers the two requests; walk.go goes through one queue's dead
// letters, which belong to many tenants, and says why nobody sees or moves what is
// another's; subject.go reads what a message is about.
//
// Putting back is at least once: a message is sent to its queue and then deleted
// here. That is safe however often and however late, since a message carries no
// state: what is no longer of use is recognised and dropped.
package deadletter
