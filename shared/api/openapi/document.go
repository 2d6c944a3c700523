// Package openapi holds the OpenAPI document in its served form and validates requests
// against it, so that what the document describes is what is enforced.
//
//   - document.go: reads the document: routes, parameters, bodies, schemas.
//   - validate.go: validates the parameters and the body of a request.
//   - issues.go: turns violations of a schema into issues, in words and with their paths.
//
// openapi.json is generated from ../openapi.yaml.
package openapi

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// JSON is openapi.yaml in its served form.
//
//go:embed openapi.json
var JSON []byte

// resourceURL names the document among the compiler's resources; it is never fetched.
const resourceURL = "lockstep:///openapi.json"

// Document is the parsed OpenAPI document.
type Document struct {
	// Operations are the routes, by mux pattern: "GET /locks/{type}/{id}".
	Operations map[string]*Operation

	root map[string]any

	mu       sync.Mutex // the compiler is not safe for concurrent use
	compiler *jsonschema.Compiler
}

// Operation is one route of the document.
type Operation struct {
	ID     string
	Public bool // needs no authenticated caller

	// Conditional means that its responses have an ETag, and that it accepts If-None-Match.
	Conditional bool

	doc          *Document
	parameters   []parameter
	bodySchema   string // pointer to the schema of a JSON body; "" if there is no body or it is not JSON
	acceptsBody  bool
	bodyRequired bool
	maxBody      int64
}

type parameter struct {
	name, location string
	required       bool
	jsonType       string // JSON type of the value, or of the items of a list
	repeated       bool
	schema         string // pointer
}

// defaultMaxBody is the size of the largest body, in bytes, unless the document sets another limit
// for the route.
const defaultMaxBody = 1 << 20

// Load parses the embedded document. It panics on an error, because the document is part
// of the program.
var Load = sync.OnceValue(func() *Document {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSON))
	if err != nil {
		panic(fmt.Sprintf("openapi.json: %v", err))
	}
	d := &Document{root: parsed.(map[string]any), Operations: map[string]*Operation{}, compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(resourceURL, parsed); err != nil {
		panic(fmt.Sprintf("openapi.json: %v", err))
	}
	for path, item := range asObject(d.root["paths"]) {
		at := "/paths/" + escapePointer(path)
		shared := d.parameters(at+"/parameters", asObject(item)["parameters"])
		for method, op := range asObject(item) {
			if method != "parameters" {
				d.Operations[strings.ToUpper(method)+" "+path] = d.operation(at+"/"+method, asObject(op), shared)
			}
		}
	}
	return d
})

func (d *Document) operation(at string, op map[string]any, shared []parameter) *Operation {
	o := &Operation{doc: d, ID: op["operationId"].(string), maxBody: defaultMaxBody}
	security, declared := op["security"].([]any)
	o.Public = declared && len(security) == 0
	o.parameters = append(d.parameters(at+"/parameters", op["parameters"]), shared...)
	o.Conditional = slices.ContainsFunc(o.parameters, func(p parameter) bool { return p.name == "If-None-Match" })
	if n, ok := op["x-max-body"].(fmt.Stringer); ok {
		if _, err := fmt.Sscan(n.String(), &o.maxBody); err != nil {
			panic(fmt.Sprintf("openapi.json: %s: %v", at, err))
		}
	}
	if body, ok := op["requestBody"].(map[string]any); ok {
		o.acceptsBody = true
		o.bodyRequired, _ = body["required"].(bool)
		if _, ok := asObject(body["content"])["application/json"]; ok {
			o.bodySchema = at + "/requestBody/content/application~1json/schema"
		}
	}
	return o
}

func (d *Document) parameters(at string, list any) []parameter {
	items, _ := list.([]any)
	var ps []parameter
	for i, item := range items {
		at := fmt.Sprintf("%s/%d", at, i)
		spec := asObject(item)
		if ref, ok := spec["$ref"].(string); ok {
			at = strings.TrimPrefix(ref, "#")
			spec = asObject(d.resolvePointer(at))
		}
		p := parameter{name: spec["name"].(string), location: spec["in"].(string), schema: at + "/schema"}
		p.required, _ = spec["required"].(bool)
		schema := d.dereference(spec["schema"])
		if schema["type"] == "array" {
			p.repeated = true
			schema = d.dereference(schema["items"])
		}
		p.jsonType, _ = schema["type"].(string)
		ps = append(ps, p)
	}
	return ps
}

// dereference follows $ref to the schema itself.
func (d *Document) dereference(schema any) map[string]any {
	s := asObject(schema)
	for {
		ref, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		s = asObject(d.resolvePointer(strings.TrimPrefix(ref, "#")))
	}
}

// resolvePointer returns the value at a JSON pointer.
func (d *Document) resolvePointer(pointer string) any {
	var v any = d.root
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		v = asObject(v)[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return v
}

// CompileSchema compiles the schema at a JSON pointer into the document. It panics if
// there is none. The compiler caches compiled schemas.
func (d *Document) CompileSchema(pointer string) *jsonschema.Schema {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts := strings.Split(pointer, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return d.compiler.MustCompile(resourceURL + "#" + strings.Join(parts, "/"))
}

func asObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func escapePointer(part string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(part)
}
