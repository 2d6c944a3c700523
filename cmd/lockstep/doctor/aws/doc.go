// Package cloud reads how a deployed stack stands: stack.go the stack and what
// it is made of, tables.go, queues.go and functions.go the parts, watch.go the
// alarms and what was measured. It answers in words of its own, and it only
// reads.
//
// Tables and queues are asked through the SDK. The four services that nothing
// else here talks to are asked by call.go, which signs with the SDK and writes the
// few questions itself: their modules would make the command half as large again
// and twice as slow to start, for eleven questions.
//
// It is for the command's doctor. Nothing that moves a run imports it.
package aws
