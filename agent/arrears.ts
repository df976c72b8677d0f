// What came about while the cloud was away is told before more is claimed: else jobs whose leases ran out meanwhile would be given out anew, to this station perhaps, while their good labels lie here.

const TRIES_MAX = 5; // with a cloud that answers whatever else it is asked: it may never take them

/** Reports that weren't taken when they were sent; `isBehind`: some wait from the run before. */
export function arrearsOf(isBehind: boolean) {
  let isBack = false; // heard of since they were sent last
  let tries = 0;
  const goFirst = () => isBehind && tries < TRIES_MAX;
  return {
    goFirst,
    /** The cloud has answered something; true where they needn't wait any longer. */
    heard: (): boolean => {
      const isNews = goFirst() && !isBack;
      isBack ||= isNews;
      return isNews;
    },
    /** True where nothing is left that was. */
    tried: (isLeft: boolean): boolean => {
      const isOver = isBehind && !isLeft;
      tries = isLeft ? tries + Number(isBack) : 0;
      isBack = false;
      isBehind = isLeft;
      return isOver;
    },
  };
}
