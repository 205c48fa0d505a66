"""What the JUMP paper measured: Cheung, Wang and Hwang, JUMP-DP (2000), table 2."""

PAPER = {'authors': 'Cheung, Wang and Hwang', 'title': 'JUMP-DP', 'year': 2000, 'table': 2}
NODES = (4, 8, 16)
PROTOCOLS = ('jiajia1', 'jump', 'jiajia2')
FAMILY = 'jump'
DEFAULTS = {'repeat': 5, 'timeout': 600.0, 'sizes': 'all'}
# The pairs that are compared: the first protocol divided by the second.
PAIRS = (('jump', 'jiajia1'), ('jump', 'jiajia2'), ('jiajia2', 'jiajia1'))

# Seconds on 4, 8 and 16 processors: under JIAJIA V1.1, under JUMP, under JIAJIA V2.1.  The paper's
# fourth system is JUMP over other sockets.
TABLE = '''
jump-mm    64    0.051    0.093    0.218    0.061    0.122    0.293    0.066    0.144    0.473
jump-mm   128    0.215    0.214    0.226    0.195    0.237    0.428    0.215    0.220    0.330
jump-mm   256    1.037    0.895    0.795    0.942    0.798    0.906    1.053    0.874    0.830
jump-mm   512    6.465    4.489    3.640    6.089    4.108    3.330    6.405    4.495    3.587
jump-mm  1024   44.026   26.695   18.155   42.520   25.331   17.034   44.284   27.310   18.837
jump-me  256K    0.777    0.909    1.005    0.462    0.494    0.547    0.799    0.918    1.004
jump-me  512K    1.545    1.789    1.931    0.897    0.946    1.007    1.553    1.792    1.940
jump-me    1M    3.081    3.561    3.824    1.775    1.847    1.918    3.093    3.557    3.837
jump-me    2M    7.875    9.634   10.565    3.521    3.681    3.775    6.200    7.310    7.802
jump-me    4M   20.096   23.750   20.648    7.176    7.494    7.673   15.655   18.259   19.154
jump-rx  256K    1.685    1.555    1.204    1.568    1.358    1.356    1.274    1.240    1.329
jump-rx  512K    3.163    2.803    2.067    2.973    2.578    2.180    2.380    2.176    2.086
jump-rx    1M    6.100    4.844    3.908    5.981    4.913    4.038    4.644    4.146    3.787
jump-rx    2M   11.999    9.202    7.972   11.983    9.716    8.368    9.238    8.505    7.545
jump-rx    4M   28.400   18.662   14.649   24.414   20.219   17.550   24.476   17.957   16.104
jump-lu    64    0.811    1.128    1.170    0.967    1.804    1.653    0.968    1.909    2.444
jump-lu   128    5.715    4.388    3.422    6.405    4.395    3.972    6.059    6.971    8.119
jump-lu   256   24.872   18.965   12.926   13.872   10.362   10.415   25.597   28.610   30.934
jump-lu   512   45.718   35.582   30.916   18.267   18.836   21.853   18.259   19.063   22.342
jump-lu  1024  1168.88  1646.13  1994.00   134.38   129.04   133.99  1094.15  1706.87  2147.94
jump-bk  256K    1.559    1.082    2.271    1.361    1.000    2.543    2.391    3.709    7.812
jump-bk  512K    3.782    1.754    2.622    3.399    1.552    2.563    4.773    4.713    8.276
jump-bk    1M   13.275    4.048    2.773   12.224    3.614    2.690   13.948    7.794    9.828
jump-bk    2M   45.073   14.117    5.041   42.917   12.899    4.683   47.668   19.394   14.102
jump-bk    4M   169.83   47.440   15.584   162.89   44.041   14.430   175.67   58.849   30.967
jump-sor  512    1.745    1.684    2.273    1.019    0.934    1.164    1.027    1.101    1.615
jump-sor  768    3.259    2.575    2.305    1.884    1.439    1.440    1.810    1.665    2.005
jump-sor 1024    5.807    4.191    3.893    3.269    2.208    1.957    3.270    2.602    2.730
jump-sor 1536   12.335    8.930    7.717    6.420    4.074    3.133    6.681    4.865    4.654
jump-sor 2048  100.635   18.683   16.319   12.163    7.457    5.277   14.388    8.974    7.908
'''


def programs():
    return seconds()


def seconds():
    """{kernel: {size: {(protocol, nodes): seconds}}}, in the order of the table."""
    found = {}
    columns = [(protocol, nodes) for protocol in PROTOCOLS for nodes in NODES]
    for line in TABLE.strip().splitlines():
        kernel, size, *times = line.split()
        found.setdefault(kernel, {})[size] = dict(zip(columns, map(float, times), strict=True))
    return found
