// Package chaos kills the real binaries on the local stack at random, one process
// and all processes, while runs that share devices are under way, and judges what
// is left by what the devices themselves have logged.
//
// A tour. chaos_test.go is the whole test: how long, which seed, and the figures.
// rig_test.go starts DynamoDB, the stack and the devices, and brings back what has
// been killed. killer_test.go decides who dies next. blocks_test.go serves the
// blocks that are called over HTTP; definitions_test.go has what is run.
// operators_test.go starts runs, cancels some, and acknowledges what needs it.
// judge_test.go has the rules, and sound_test.go shows that each of them can be
// broken. durable_test.go asks whether the local DynamoDB keeps what it has
// acknowledged when it is killed, without which killing it would prove nothing.
//
// The seed decides what is run and who is killed in which order; what a process
// was about at that moment is the machine's. A short run is part of make test;
// make chaos MINUTES=5 runs long.
package chaos
