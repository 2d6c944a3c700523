package simulator

import (
	"strings"
	"time"
)

// outageTime is how long a service is unavailable in an outage.
const outageTime = time.Hour

// service is a table or a queue, with the prefixes of the names of the calls that need it.
type service struct {
	name  string
	calls []string
}

const lifecycleQueueName, poolQueueName = "the lifecycle queue", "the pool's queue"

var services = []service{
	{"the executions table", []string{"store."}},
	{"the jobs table", []string{"packs."}},
	{"the locks table", []string{"locks."}},
	{"the registry table", []string{"registry.", "schedules.", "workers."}},
	{lifecycleQueueName, []string{"sender.send_wakeups"}},
	{poolQueueName, []string{"sender.send_packs"}},
}

// outage is an outage that lasts until a time.
type outage struct {
	service
	until time.Time
}

// hits reports whether a call needs the unavailable service.
func (o *outage) hits(call string, now time.Time) bool {
	if !now.Before(o.until) {
		return false
	}
	for _, prefix := range o.calls {
		if strings.HasPrefix(call, prefix) {
			return true
		}
	}
	return false
}

// receivable returns when a message that is visible at a time can be received from a queue.
func (w *simulation) receivable(queue string, visible time.Time) time.Time {
	if w.outage.name == queue && visible.Before(w.outage.until) {
		visible = w.outage.until
	}
	if queue == poolQueueName && visible.Before(w.queueUntil) {
		visible = w.queueUntil
	}
	return visible
}

// deferred is something that a client does again later.
type deferred struct {
	at time.Time
	do func()
}

// tryLater lets a client do something again: at once, or a minute later during an outage.
func (w *simulation) tryLater(do func()) {
	if !w.Now().Before(w.outage.until) {
		do()
		return
	}
	w.deferred = append(w.deferred, deferred{w.Now().Add(time.Minute), do})
}
