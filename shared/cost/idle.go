package cost

// IdleDeployment is an install of which nobody asks anything: what there is of it that is
// paid for by the month, and what it does by itself.
type IdleDeployment struct {
	PolledQueues     int // that a mapping polls
	SweepsPerMinute  int // a minute
	QueriesPerSweep  int // of an index that holds nothing, in one sweep
	Alarms           int
	Dashboards       int
	Metrics          int     // of its own, that it writes at rest
	LogBytesPerSweep float64 // of one sweep
}

// What AWS says of a month, and of the polling of a queue by a mapping: five
// long polls at a time, of 20 seconds each.
const (
	minutesPerMonth = 730 * 60
	pollsPerMinute  = 5 * 60 / 20
	gigabyte        = 1 << 30

	// A query that finds nothing is half a unit, since indexes are read eventually
	// consistent. The sweeper has half of the memory of the average function.
	emptyQuery = 0.5
	sweeperGB  = 0.25
)

// IdleMonth is the bill of a month at rest at current prices. Tables, queues, functions
// and the HTTP API are charged for what is stored in them and asked of them, and so
// are not in it.
func IdleMonth(r IdleDeployment) Bill { return Current.IdleMonth(r) }

// IdleMonth is the bill of a month at rest.
func (p Prices) IdleMonth(r IdleDeployment) Bill {
	b, sweeps := Bill{AsOf: p.Date}, float64(r.SweepsPerMinute*minutesPerMonth)
	b.add("polling by the mappings", float64(r.PolledQueues*pollsPerMinute*minutesPerMonth), "requests of 64 KB", p.Queue/1e6)
	b.add("reads by the sweeper", sweeps*float64(r.QueriesPerSweep)*emptyQuery, "read units", p.ReadUnits/1e6)
	b.add("invocations of the sweeper", sweeps, "invocations", p.Invocations/1e6)
	b.add("time of the sweeper", sweeps*sweeperGB*assumedSeconds, "GB-seconds, assumed", p.GBSecond)
	b.add("log of the sweeper", sweeps*r.LogBytesPerSweep/gigabyte, "GB", p.LogGB)
	b.add("alarms", float64(r.Alarms), "alarms", p.Alarm)
	b.add("dashboard", float64(r.Dashboards), "dashboards", p.Dashboard)
	b.add("metrics of the engine", float64(r.Metrics), "metrics", p.Metric)
	return b
}
