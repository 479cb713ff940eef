// The webhooks of registration, work and addon in one process, on a port of our choosing.
//
// OCM's own commands each take :8000 for health and :8080 for metrics on every address, so two of
// them cannot share a machine. The handlers here are OCM's; only the server around them is ours.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/api/feature"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
	addonv1alpha1 "open-cluster-management.io/ocm/pkg/addon/webhook/v1alpha1"
	addonv1beta1 "open-cluster-management.io/ocm/pkg/addon/webhook/v1beta1"
	"open-cluster-management.io/ocm/pkg/common/options"
	"open-cluster-management.io/ocm/pkg/features"
	registrationv1 "open-cluster-management.io/ocm/pkg/registration/webhook/v1"
	registrationv1beta2 "open-cluster-management.io/ocm/pkg/registration/webhook/v1beta2"
	webhookv1 "open-cluster-management.io/ocm/pkg/work/webhook/v1"
	webhookv1alpha1 "open-cluster-management.io/ocm/pkg/work/webhook/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func main() {
	port := flag.Int("port", 9443, "the port on 127.0.0.1")
	certs := flag.String("certdir", "", "the folder with tls.crt and tls.key")
	flag.Parse() // controller-runtime adds --kubeconfig
	ctrl.SetLogger(klog.Background())
	if err := serve(*port, *certs); err != nil {
		klog.ErrorS(err, "the webhooks ended")
		os.Exit(1)
	}
}

func serve(port int, certs string) error {
	for _, gates := range []map[featuregate.Feature]featuregate.FeatureSpec{
		feature.DefaultHubRegistrationFeatureGates, feature.DefaultHubWorkFeatureGates,
	} {
		if err := features.HubMutableFeatureGate.Add(gates); err != nil {
			return err
		}
	}
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		clusterv1.Install, registrationv1beta2.Install,
		workv1.Install, workv1alpha1.Install,
		addonv1alpha1.Install, addonv1beta1.Install,
	} {
		if err := install(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: "0",
		Metrics:                server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: port, CertDir: certs,
		}),
	})
	if err != nil {
		return err
	}
	for _, hook := range []options.WebhookInitializer{
		&registrationv1.ManagedClusterWebhook{},
		&registrationv1beta2.ManagedClusterSetBindingWebhook{},
		&webhookv1.ManifestWorkWebhook{},
		&webhookv1alpha1.ManifestWorkReplicaSetWebhook{},
		&addonv1alpha1.ManagedClusterAddOnWebhook{},
		&addonv1beta1.ManagedClusterAddOnWebhook{},
		&addonv1alpha1.ClusterManagementAddOnWebhook{},
		&addonv1beta1.ClusterManagementAddOnWebhook{},
	} {
		if err := hook.Init(manager); err != nil {
			return err
		}
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
