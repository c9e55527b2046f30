module corelane

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/dgryski/go-sip13 v0.0.0-20200911182023-62edffca9245
	github.com/puzpuzpuz/xsync/v3 v3.5.1
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	pgregory.net/rapid v1.3.0
)
