package mutation

// httpSteps are mistakes in steps that call HTTP servers. A test detects each.
var httpSteps = []Mutation{
	{Name: "an http step calls any host", Test: "shared/worker/httpblock:TestStep_RefusesWithCodes", Edits: []Edit{{httpStep, "if err := c.allow.check(req.URL); err != nil {", "if err := c.allow.check(req.URL); err != nil && false {"}}},
	{Name: "an http step has no key", Test: "shared/worker/httpblock:TestStep_SendsAndReturns", Edits: []Edit{{httpStep, "setKey(req.Header, keyOf(job))", "setKey(req.Header, job.ExecutionID)"}}},
	{Name: "any status is what an http step expects", Test: "shared/worker/httpblock:TestStep_StatusDecides", Edits: []Edit{{httpStep, "return status/100 == 2", "return status > 0"}}},
	{Name: "a Retry-After is ignored", Test: "shared/engine:TestRetryAfter_IsKept", Edits: []Edit{{"shared/workflow/retry.go", "longest = max(longest, p.Jobs[i].Failure.RetryAfter())", "_ = longest"}}},
	{Name: "the engine ignores a Retry-After", Test: "shared/engine:TestRetryAfter_IsKept", Edits: []Edit{{"shared/engine/dispatch/lane_state.go", "max(r.Work.Retry.DelayBefore(l.attempt+1), l.pack.RetryAfter(retry))", "max(r.Work.Retry.DelayBefore(l.attempt+1), 0*l.pack.RetryAfter(retry))"}}},
	{Name: "a Retry-After of years is kept", Test: "shared/worker/httpblock:TestStep_StatusDecides", Edits: []Edit{{httpStep, "min(max(seconds, 0), int(workflow.MaxRetryAfter/time.Second))", "max(seconds, 0)"}, {"shared/workflow/retry.go", "min(details.RetryAfter, MaxRetryAfter.Seconds())", "details.RetryAfter"}}},
	{Name: "a call that may have been made twice is made again", Test: "shared/worker/httpblock:TestStep_RefusesWithCodes", Edits: []Edit{{"shared/workflow/failure.go", "FailureHTTPTimeout, FailureHTTPUnreachable,", "FailureHTTPTimeout,"}}},
	{Name: "a call that was not made counts as made", Test: "shared/worker/httpblock:TestStep_RefusesWithCodes", Edits: []Edit{{"shared/worker/job.go", "f.Code, f.Retryable, f.Unsent = e.code, e.retryable, e.unsent", "f.Code, f.Retryable, f.Unsent = e.code, e.retryable, false"}}},
	{Name: "cookies of an answer are kept", Test: "shared/worker/httpblock:TestStep_SendsAndReturns", Edits: []Edit{{httpStep, "name != \"set-cookie\"", "name != \"\""}}},
	{Name: "a long answer of a failure is cut before its secrets are removed", Test: "shared/worker/httpblock:TestStep_RefusesWithCodes", Edits: []Edit{{httpStep, "len(v) <= maxErrorBody {", "len(v) <= 1<<20 {"}}},
	{Name: "the address of a failed call is in its error", Test: "shared/worker/httpblock:TestStep_RefusesWithCodes", Edits: []Edit{{"shared/worker/httpblock/client.go", "\t\terr = failed.Err\n", "\t\t_ = failed.Err\n"}}},
	{Name: "a signature is not over the time", Test: "shared/worker/httpblock:TestStep_Signs", Edits: []Edit{{"shared/workflow/signature.go", "MAC(secret, []byte(t+\".\"), body)", "MAC(secret, body)"}}},
	{Name: "a POST is repeated", Test: "shared/definition:TestHTTPStep_BlockByMethod", Edits: []Edit{{"shared/definition/http.go", "case \"PUT\", \"DELETE\":", "case \"PUT\", \"DELETE\", \"POST\":"}}},
	{Name: "what the author says about repeating is ignored", Test: "shared/definition:TestHTTPStep_BlockByMethod", Edits: []Edit{{"shared/definition/http.go", "if s.Idempotent && s.FunctionBlock", "if false && s.Idempotent && s.FunctionBlock"}}},
	{Name: "a block of the product can be replaced", Test: "shared/definition:TestHTTPStep_BlockByMethod", Edits: []Edit{{"shared/definition/block.go", "if workflow.BuiltinName(", "if false && workflow.BuiltinName("}}},
	{Name: "a step names a block of the product", Test: "shared/definition:TestParse_ListsAllIssues", Edits: []Edit{{"shared/definition/scalars.go", "err == nil && workflow.BuiltinName(ref)", "err != nil && workflow.BuiltinName(ref)"}}},
	{Name: "the key of an http step changes with the attempt", Test: "shared/worker/httpblock:TestStep_KeyIsThatOfAllAttempts", Edits: []Edit{{httpStep, "strings.TrimSuffix(job.ID, \".\"+strconv.Itoa(job.Attempt))", "job.ID + strconv.Itoa(job.Attempt)"}}},
	{Name: "a request is repeated when its connection breaks", Test: "shared/worker/httpblock:TestStep_IsNotRepeatedByItself", Edits: []Edit{{"shared/worker/httpblock/client.go", "\t\t\th.Del(name)\n\t\t\th[name] = own\n", "\t\t\th[name] = own\n"}}},
	{Name: "a POST with an unclear end is made again", Test: "shared/worker/httpblock:TestStep_RefusesWithCodes", Edits: []Edit{{httpStep, "refused || repeatable && retryableStatus", "refused || retryableStatus"}}},
}

const httpStep = "shared/worker/httpblock/step.go"
