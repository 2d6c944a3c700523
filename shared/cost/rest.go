package cost

// Resting is an install of which nobody asks anything: what there is of it that is
// paid for by the month, and what it does by itself.
type Resting struct {
	Queues     int // that a mapping polls
	Sweeps     int // a minute
	Queries    int // of an index that holds nothing, in one sweep
	Alarms     int
	Dashboards int
	Metrics    int     // of its own, that it writes at rest
	LogBytes   float64 // of one sweep
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

// Rest is the bill of a month at rest at current prices. Tables, queues, functions
// and the HTTP API are charged for what is stored in them and asked of them, and so
// are not in it.
func Rest(r Resting) Bill { return Current.Rest(r) }

// Rest is the bill of a month at rest.
func (p Prices) Rest(r Resting) Bill {
	b, sweeps := Bill{AsOf: p.Date}, float64(r.Sweeps*minutesPerMonth)
	b.add("polling by the mappings", float64(r.Queues*pollsPerMinute*minutesPerMonth), "requests of 64 KB", p.Queue/1e6)
	b.add("reads by the sweeper", sweeps*float64(r.Queries)*emptyQuery, "read units", p.ReadUnits/1e6)
	b.add("invocations of the sweeper", sweeps, "invocations", p.Invocations/1e6)
	b.add("time of the sweeper", sweeps*sweeperGB*assumedSeconds, "GB-seconds, assumed", p.GBSecond)
	b.add("log of the sweeper", sweeps*r.LogBytes/gigabyte, "GB", p.LogGB)
	b.add("alarms", float64(r.Alarms), "alarms", p.Alarm)
	b.add("dashboard", float64(r.Dashboards), "dashboards", p.Dashboard)
	b.add("metrics of the engine", float64(r.Metrics), "metrics", p.Metric)
	return b
}
