package api

//go:generate go -C document run generate_json.go
//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config gen/server.yaml openapi.yaml
