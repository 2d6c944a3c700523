package mutation

// endpoints are mistakes with the endpoints of a stage, and with signatures. A test detects each.
var endpoints = []Mutation{
	{Name: "a path leads out of its endpoint", Test: "shared/workflow:TestEndpoints_Address", Edits: []Edit{{"shared/workflow/endpoint.go", "if segment == \".\" || segment == \"..\" {", "if segment == \".\" {"}}},
	{Name: "a path leads to another host", Test: "shared/workflow:TestEndpoints_Address", Edits: []Edit{{"shared/workflow/endpoint.go", "!strings.HasPrefix(path, \"/\") || u.Scheme", "u.Scheme"}}},
	{Name: "an unknown endpoint is published", Test: "shared/catalog:TestCatalog_RefusesUnknownEndpoints", Edits: []Edit{{"shared/catalog/definitions.go", "if issue := known.Check(s.Endpoint(), paths[i]+\".http.endpoint\"); issue != nil {", "if issue := known.Check(\"\", paths[i]+s.Endpoint()); issue != nil {"}}},
	{Name: "a block with an unknown endpoint is registered", Test: "shared/catalog:TestCatalog_RefusesUnknownEndpoints", Edits: []Edit{{"shared/catalog/blocks.go", "issue != nil {", "false && issue != nil {"}}},
	{Name: "an execution begins that calls an unknown endpoint", Test: "shared/engine:TestEndpoints_MissingOneIsRefusedAtTheStart", Edits: []Edit{{"shared/engine/fetch_resolution.go", "\t\t\tr.Problem = w.unknownEndpoint(n.Endpoint(), n.Label)", "\t\t\t_ = n.Endpoint()"}}},
	{Name: "an execution begins whose block is at an unknown endpoint", Test: "shared/engine:TestEndpoints_MissingOneIsRefusedAtTheStart", Edits: []Edit{{"shared/engine/fetch_resolution.go", "w.unknownEndpoint(b.HTTP.Endpoint, label)", "w.unknownEndpoint(b.HTTP.URL, label)"}}},
	{Name: "an execution that has begun cannot go on without an endpoint", Test: "shared/engine:TestEndpoints_MissingOneIsRefusedAtTheStart", Edits: []Edit{{"shared/engine/fetch_resolution.go", "issue == nil || w.execution.State != sm.ExecutionNew {", "issue == nil || w.execution.State == sm.ExecutionState(\"\") {"}}},
	{Name: "the host of an endpoint may be called at any port", Test: "shared/worker/httpblock:TestClient_CallsEndpointAndSigns", Edits: []Edit{{"shared/worker/httpblock/allowlist.go", "net.JoinHostPort(u.Hostname(), portOf(u)))", "u.Hostname())"}}},
	{Name: "the requests of a block are not signed", Test: "shared/worker/httpblock:TestClient_CallsEndpointAndSigns", Edits: []Edit{{"shared/worker/httpblock/client.go", "\tif e.Sign != nil {", "\tif e.Sign == nil {"}}},
	{Name: "a block signs with the name of its secret", Test: "shared/worker:TestSecrets_AreFilledInAndRemoved", Edits: []Edit{{"shared/worker/secret.go", "filled.SignKey = all[e.Sign.Secret]", "filled.SignKey = e.Sign.Secret"}}},
}
