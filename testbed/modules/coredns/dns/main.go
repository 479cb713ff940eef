// CoreDNS with the few plugins that a cluster of the test bed needs.
package main

import (
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
)

func init() {
	// In the order in which a question passes them.
	dnsserver.Directives = []string{"ready", "errors", "cache", "kubernetes", "template"}
}

func main() {
	coremain.Run()
}
